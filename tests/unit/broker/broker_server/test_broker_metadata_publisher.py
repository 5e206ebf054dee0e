"""What a KRaft broker is told of the metadata log, and when."""

from collections.abc import Sequence

from headwater.broker.broker_server.broker_metadata_publisher import BrokerMetadataPublisher
from headwater.common.ids import NodeId, TopicId
from headwater.metadata.changes import (
    ControllerElected,
    ControllerGone,
    MetadataChange,
    PartitionChanged,
    PartitionDropped,
    TopicCreated,
    TopicDeleted,
    TopicKnown,
    apply,
)
from headwater.metadata.cluster_image import (
    FIRST_VERSION,
    NO_CONTROLLER,
    ClusterImage,
    PartitionRegistration,
    TopicImage,
    Version,
)

EMPTY = ClusterImage(cluster_id="c")
ME = NodeId(1)


def topic(name: str, *replicas: int, topic_id: bytes = b"0123456789abcdef") -> TopicImage:
    ids = tuple(NodeId(each) for each in replicas)
    partition = PartitionRegistration(replicas=ids, isr=ids, leader=ids[0])
    return TopicImage(name=name, topic_id=TopicId(topic_id), partitions=(partition,))


class Told:
    """What the broker was told, and a log that tells it."""

    def __init__(self) -> None:
        self.changes: list[MetadataChange] = []
        self.publisher = BrokerMetadataPublisher(ME, EMPTY, self._on_change)
        self.image = EMPTY

    def commit(self, *changes: MetadataChange, offset: int = 1) -> list[MetadataChange]:
        self.changes = []
        self.image = apply(self.image, changes, FIRST_VERSION)
        self.publisher.publish(self.image, changes, offset)
        return self.changes

    def _on_change(self, image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        assert image is self.publisher.image
        self.changes += changes


def test_nothing_is_published_before_the_broker_has_caught_up() -> None:
    told = Told()
    assert told.commit(TopicCreated(topic("t", 1))) == []
    assert not told.publisher.has_published
    assert not told.publisher.image.topics


def test_topics_of_the_first_image_may_have_logs_already() -> None:
    told = Told()
    told.commit(TopicCreated(topic("t", 1)))
    told.publisher.publish_first(told.image, 7)
    assert told.changes == [TopicKnown(topic("t", 1))]
    assert told.publisher.image.version == Version(0, 7)


def test_later_topics_are_new() -> None:
    told = Told()
    told.publisher.publish_first(EMPTY, 7)
    assert told.commit(TopicCreated(topic("t", 1))) == [TopicCreated(topic("t", 1))]


def test_replica_that_moves_away_is_deleted_here() -> None:
    told = Told()
    told.commit(TopicCreated(topic("t", 1, 2)))
    told.publisher.publish_first(told.image, 7)
    moved = PartitionChanged("t", 0, topic("t", 2, 3).partitions[0])
    assert told.commit(moved) == [moved, PartitionDropped("t", 0, is_deleted=True)]
    again = PartitionChanged("t", 0, topic("t", 3, 4).partitions[0])
    assert told.commit(again) == [again]


def test_snapshot_is_published_as_changes() -> None:
    told = Told()
    told.commit(TopicCreated(topic("t", 1)))
    told.publisher.publish_first(told.image, 7)
    told.changes = []
    other = topic("u", 1, topic_id=b"fedcba9876543210")
    told.publisher.publish_snapshot(apply(EMPTY, [TopicCreated(other)], FIRST_VERSION), 90)
    assert told.changes == [TopicDeleted("t"), TopicCreated(other)]
    assert told.publisher.image.version == Version(0, 90)


def test_controller_comes_from_the_quorum_and_survives_the_next_record() -> None:
    told = Told()
    told.publisher.publish_first(EMPTY, 7)
    told.publisher.controller_changed(NodeId(100))
    assert told.changes == [ControllerElected(NodeId(100))]
    told.commit(TopicCreated(topic("t", 1)))
    assert told.publisher.image.controller_id == 100
    told.changes = []
    told.publisher.controller_changed(NO_CONTROLLER)
    assert told.changes == [ControllerGone()]
