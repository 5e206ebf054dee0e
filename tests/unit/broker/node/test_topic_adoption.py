"""Adoption of existing logs, and new leader epochs after an unclean shutdown."""

import random
from pathlib import PurePosixPath

from headwater.broker.node.topic_adoption import adopt
from headwater.common.config_types import ResourceType
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.controller.elect_leaders import bump_leader_epochs, led_by
from headwater.metadata.changes import PartitionChanged, TopicCreated
from headwater.metadata.cluster_image import PartitionRegistration, TopicImage
from headwater.storage.log import leader_epoch_checkpoint, partition_metadata_file
from headwater.storage.log.leader_epoch_checkpoint import EpochEntry, LeaderEpochFileCache
from headwater.storage.log_manager.log_directory_scan import FoundPartition, scan_log_directories
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.labs.cluster_lab import STATIC, after, lone_broker, rng

ID = TopicId(bytes(range(16)))
DATA = PurePosixPath("/data")


def found(topic: str, number: int, topic_id: TopicId | None = ID, epoch: int = 4) -> FoundPartition:
    return FoundPartition(TopicPartition(topic, number), topic_id, epoch)


def test_folders_become_topics_with_their_ids_and_newer_epochs() -> None:
    changes = adopt(lone_broker(), [found("t", 0), found("t", 2)], STATIC.settings, rng())
    image = after(lone_broker(), *changes)
    topic = image.topics["t"]
    assert topic.topic_id == ID
    assert [each.leader_epoch for each in topic.partitions] == [5, 0, 5]
    assert {each.leader for each in topic.partitions} == {NodeId(0)}


def test_adopted_topic_deletes_nothing_and_internal_topics_are_compacted() -> None:
    """Their configs are lost, and the default retention of seven days could delete old records."""
    partitions = [found("__consumer_offsets", 0), found("t", 0)]
    image = after(lone_broker(), *adopt(lone_broker(), partitions, STATIC.settings, rng()))
    assert image.configs_of(ResourceType.TOPIC, "t")["retention.ms"] == "-1"
    offsets = image.configs_of(ResourceType.TOPIC, "__consumer_offsets")
    assert offsets["cleanup.policy"] == "compact"


def test_producer_ids_of_the_former_cluster_are_not_reused() -> None:
    image = after(lone_broker(), *adopt(lone_broker(), [found("t", 0)], STATIC.settings, rng()))
    assert image.next_producer_id > 2**32


def test_empty_directory_adopts_nothing() -> None:
    assert adopt(lone_broker(), [], STATIC.settings, rng()) == []


def test_scan_finds_only_live_partition_folders() -> None:
    disk = LossyDisk(random.Random(1))
    disk.make_directory(DATA)
    for name in (
        "t-0",
        "t-1",
        "t-2.0123456789abcdef0123456789abcdef-delete",
        "__cluster_metadata-0",
    ):
        disk.make_directory(DATA / name)
    partition_metadata_file.write(disk, DATA / "t-0", ID)
    leader_epoch_checkpoint.save(
        disk, DATA / "t-0", LeaderEpochFileCache([EpochEntry(3, 0), EpochEntry(7, 10)])
    )
    disk.open(DATA / "t-1" / partition_metadata_file.FILE_NAME, create=True).write([b"?"], 0)
    assert scan_log_directories(disk, [DATA]) == [found("t", 0, ID, 7), found("t", 1, None, -1)]


def test_leader_after_an_unclean_shutdown_gets_a_new_epoch() -> None:
    ours = PartitionRegistration(
        replicas=(NodeId(0),), isr=(NodeId(0),), leader=NodeId(0), leader_epoch=2
    )
    other = PartitionRegistration(replicas=(NodeId(1),), isr=(NodeId(1),), leader=NodeId(1))
    topic = TopicImage(name="t", topic_id=ID, partitions=(other, ours))
    image = after(lone_broker(), TopicCreated(topic))
    decision = bump_leader_epochs(image, NodeId(0))
    renewed = led_by(ours, NodeId(0), (NodeId(0),))
    assert decision.changes == [PartitionChanged("t", 1, renewed)]
    assert renewed.leader_epoch == 3
