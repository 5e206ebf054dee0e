"""The cluster image and its changes."""

from headwater.common.config_types import ResourceType
from headwater.common.ids import NodeId, TopicId
from headwater.controller.topic_creation import new_partition
from headwater.metadata.changes import (
    BrokerGone,
    BrokerRegistered,
    ConfigsReplaced,
    ControllerElected,
    FeatureFinalized,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
    apply,
)
from headwater.metadata.cluster_image import NO_CONTROLLER, ConfigResource, TopicImage, Version
from headwater.metadata.immutable_map import ImmutableMap
from tests.simulation.labs.cluster_lab import after, broker, cluster_of

TOPIC = TopicImage(name="t", topic_id=TopicId(b"\x01" * 16), partitions=(new_partition([0]),))
CONFIGS = ConfigResource(ResourceType.TOPIC, "t")


def test_an_image_is_immutable_and_its_successor_has_the_changes() -> None:
    before = cluster_of(broker(0))
    image = apply(
        before, [TopicCreated(TOPIC), ConfigsReplaced(CONFIGS, {"a": "b"})], Version(2, 9)
    )
    assert before == cluster_of(broker(0))
    assert image.version == (2, 9)
    assert image.topics == {"t": TOPIC}
    assert image.topic_by_id(TOPIC.topic_id) == TOPIC
    assert image.configs_of(ResourceType.TOPIC, "t") == {"a": "b"}


def test_changes_of_one_write_build_on_each_other() -> None:
    image = after(
        cluster_of(broker(0)),
        TopicCreated(TOPIC),
        PartitionsAdded("t", (new_partition([0]),)),
        PartitionChanged("t", 1, new_partition([1])),
        ConfigsReplaced(CONFIGS, {"a": "b"}),
    )
    assert image.topics["t"].partitions == (new_partition([0]), new_partition([1]))
    assert image.partition("t", 1) == new_partition([1])
    assert image.partition("t", 2) is None
    assert image.partition("t", -1) is None
    gone = after(image, TopicDeleted("t"), TopicCreated(TOPIC), TopicDeleted("t"))
    assert (len(gone.topics), len(gone.names_by_id), len(gone.configs)) == (0, 0, 0)


def test_a_controller_that_leaves_the_cluster_loses_controllership() -> None:
    image = after(cluster_of(broker(0), broker(1)), ControllerElected(NodeId(1)))
    image = after(image, BrokerGone(NodeId(1)), FeatureFinalized("metadata.version", 20))
    assert (list(image.brokers), image.controller_id) == ([0], NO_CONTROLLER)
    assert image.features == {"metadata.version": 20}
    back = after(image, BrokerRegistered(broker(1)), FeatureFinalized("metadata.version", 0))
    assert (list(back.brokers), back.features) == ([0, 1], {})


def test_an_immutable_map_equals_a_dict_with_the_same_changes() -> None:
    layered: ImmutableMap[int, str] = ImmutableMap()
    plain: dict[int, str] = {}
    for step in range(2_000):
        # Inserts, replacements and removals of present and absent keys, across many merges.
        changes: dict[int, str | None] = {step * 7 % 311: str(step), step * 5 % 307: None}
        before, copy = layered, dict(layered) if step % 100 == 0 else None
        layered = layered.changed(changes)
        for key, value in changes.items():
            plain.pop(key, None) if value is None else plain.update({key: value})
        assert len(layered) == len(plain)
        if copy is not None:
            assert before == copy
            assert layered == plain
    assert layered == plain
    assert sorted(layered) == sorted(plain)
    assert all((key in layered) == (key in plain) for key in range(320))
    assert [layered.get(key) for key in range(320)] == [plain.get(key) for key in range(320)]
    assert [layered.get(key, "-") for key in range(320)] == [
        plain.get(key, "-") for key in range(320)
    ]
