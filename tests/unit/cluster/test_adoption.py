"""Logs from elsewhere get their topics back; leaders that lost their memory get a new epoch."""

import random
from pathlib import PurePosixPath

from headwater.cluster.adoption import adopt
from headwater.cluster.facts import PartitionChanged, TopicCreated
from headwater.cluster.image import Partition, Topic
from headwater.cluster.leadership import led_by, renew_leaderships
from headwater.model.config_terms import ResourceType
from headwater.model.ids import NodeId, TopicId, TopicPartition
from headwater.storage import leader_epochs, partition_metadata
from headwater.storage.folder_survey import FoundPartition, survey
from headwater.storage.leader_epochs import EpochEntry, LeaderEpochs
from tests.sim.cluster_lab import STATIC, after, dice, lone_broker
from tests.sim.cruel_disk import CruelDisk

ID = TopicId(bytes(range(16)))
DATA = PurePosixPath("/data")


def found(topic: str, number: int, topic_id: TopicId | None = ID, epoch: int = 4) -> FoundPartition:
    return FoundPartition(TopicPartition(topic, number), topic_id, epoch)


def test_folders_become_topics_with_their_ids_under_newer_epochs() -> None:
    facts = adopt(lone_broker(), [found("t", 0), found("t", 2)], STATIC.settings, dice())
    image = after(lone_broker(), *facts)
    topic = image.topics["t"]
    assert topic.topic_id == ID
    assert [each.leader_epoch for each in topic.partitions] == [5, 0, 5]
    assert {each.leader for each in topic.partitions} == {NodeId(0)}


def test_an_adopted_topic_deletes_nothing_and_internal_ones_are_compacted() -> None:
    """Their configs are lost, and the default of seven days could be the end of old records."""
    partitions = [found("__consumer_offsets", 0), found("t", 0)]
    image = after(lone_broker(), *adopt(lone_broker(), partitions, STATIC.settings, dice()))
    assert image.configs_of(ResourceType.TOPIC, "t")["retention.ms"] == "-1"
    offsets = image.configs_of(ResourceType.TOPIC, "__consumer_offsets")
    assert offsets["cleanup.policy"] == "compact"


def test_producer_ids_of_the_former_cluster_are_not_given_out_again() -> None:
    image = after(lone_broker(), *adopt(lone_broker(), [found("t", 0)], STATIC.settings, dice()))
    assert image.next_producer_id > 2**32


def test_an_empty_directory_adopts_nothing() -> None:
    assert adopt(lone_broker(), [], STATIC.settings, dice()) == []


def test_a_survey_tells_live_folders_apart_from_all_else() -> None:
    disk = CruelDisk(random.Random(1))
    disk.make_directory(DATA)
    for name in (
        "t-0",
        "t-1",
        "t-2.0123456789abcdef0123456789abcdef-delete",
        "__cluster_metadata-0",
    ):
        disk.make_directory(DATA / name)
    partition_metadata.write(disk, DATA / "t-0", ID)
    leader_epochs.save(disk, DATA / "t-0", LeaderEpochs([EpochEntry(3, 0), EpochEntry(7, 10)]))
    disk.open(DATA / "t-1" / partition_metadata.FILE_NAME, create=True).write([b"?"], 0)
    assert survey(disk, [DATA]) == [found("t", 0, ID, 7), found("t", 1, None, -1)]


def test_a_leader_that_lost_its_memory_leads_on_under_a_new_epoch() -> None:
    ours = Partition(replicas=(NodeId(0),), isr=(NodeId(0),), leader=NodeId(0), leader_epoch=2)
    other = Partition(replicas=(NodeId(1),), isr=(NodeId(1),), leader=NodeId(1))
    topic = Topic(name="t", topic_id=ID, partitions=(other, ours))
    image = after(lone_broker(), TopicCreated(topic))
    decision = renew_leaderships(image, NodeId(0))
    renewed = led_by(ours, NodeId(0), (NodeId(0),))
    assert decision.facts == [PartitionChanged("t", 1, renewed)]
    assert renewed.leader_epoch == 3
