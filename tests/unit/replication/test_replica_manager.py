"""InitialRebalanceDelay logs in the background, and the owner of a partition folder."""

import random
from pathlib import PurePath

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import TooManyOpenFiles
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.metadata.changes import TopicCreated, TopicDeleted
from headwater.metadata.cluster_image import PartitionRegistration, TopicImage
from headwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from headwater.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from headwater.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headwater.protocol.messages.produce import ProduceResponse
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from headwater.storage.log import partition_metadata_file
from headwater.storage.log_manager.partition_directory_names import future_name
from tests.simulation.fakes.lossy_disk import LossyDisk, LossyFile
from tests.simulation.labs.broker_lab import START_MS, BrokerLab
from tests.simulation.labs.cluster_lab import topic
from tests.simulation.labs.cluster_node_lab import DIRECTORIES, ClusterNodeLab
from tests.simulation.worlds.cluster_clients import produce

ELSEWHERE = NodeId(9)


class SlowDisk(LossyDisk):
    """Creating a folder takes three milliseconds."""

    def __init__(self) -> None:
        super().__init__(random.Random(1), now_ms=lambda: START_MS)
        self.lab: BrokerLab | None = None

    def make_directory(self, path: PurePath) -> None:
        super().make_directory(path)
        if self.lab is not None:
            self.lab.clock.move(3)


def test_new_partitions_are_opened_in_small_slices_of_time() -> None:
    disk = SlowDisk()
    lab = BrokerLab(disk=disk)
    disk.lab = lab
    lab.create("t", 7)
    partitions = lab.broker.partitions

    def opened() -> int:
        return sum(each.log is not None for each in partitions)

    counts = []
    while opened() < 7:
        partitions.open_some(5)
        counts.append(opened())
    assert counts == [2, 4, 6, 7]


def test_topics_created_and_deleted_elsewhere_leave_nothing_behind() -> None:
    lab = BrokerLab()
    partition = PartitionRegistration(
        replicas=(ELSEWHERE,), isr=(ELSEWHERE,), leader=ELSEWHERE, leader_epoch=0, partition_epoch=0
    )
    for number in range(3):
        topic_id = TopicId(bytes([number] * 16))
        lab.change(TopicCreated(TopicImage(name="t", topic_id=topic_id, partitions=(partition,))))
        assert lab.broker.partitions._new_from
        lab.change(TopicDeleted("t"))
    assert lab.broker.partitions._new_from == {}


@pytest.mark.parametrize("has_id", [True, False])
def test_of_two_folders_of_a_partition_the_one_with_the_topic_id_is_used(has_id: bool) -> None:
    """TI-1: a disk came back with a folder of a deleted topic of the same name."""
    lab = ClusterNodeLab(1)
    (node,) = lab.nodes
    node.ask(
        CreateTopicsRequest(topics=(topic("t", 2, 1),), timeout_ms=1_000), CreateTopicsResponse
    )
    name = TopicPartition("t", 1)
    first, second = DIRECTORIES
    assert node.directory_of(name) == second
    topic_id = lab.store.image.topics["t"].topic_id
    batch = build_batch([Record(key=None, value=b"v", timestamp=1)])
    node.ask(produce(topic_id, 1, batch), ProduceResponse)
    node.crash()
    node.disk.make_directory(first / "t-1")
    if has_id:
        partition_metadata_file.write(node.disk, first / "t-1", TopicId(bytes(range(16))))
    lab.run(10_000)
    node.start()
    lab.run(2_000)
    hosted = node.partitions.find(*name)
    assert hosted is not None
    assert hosted.open_log().end_offset == 1
    assert node.directory_of(name) == second
    (aside,) = [each for each in node.disk.names(first) if each.startswith("t-1")]
    assert aside.endswith("-stray")


def test_a_disk_that_fails_during_a_start_takes_only_its_directory_offline() -> None:
    """It was readable when the logs were found, and is not when their topic ids are compared."""
    lab = ClusterNodeLab(1)
    (node,) = lab.nodes
    node.ask(
        CreateTopicsRequest(topics=(topic("t", 2, 1),), timeout_ms=1_000), CreateTopicsResponse
    )
    failing = node.directory_of(TopicPartition("t", 0))
    assert failing is not None
    node.crash()
    lab.run(10_000)
    node.start()
    node.disk.fail_next_read(f"{failing}/*/partition.metadata")
    lab.run(2_000)
    serving = [each.path for each in node.broker.directories.serving()]
    assert serving == [each for each in DIRECTORIES if each != failing]
    assert node.partitions.log_dir_error(TopicPartition("t", 0)) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_future_log_without_a_current_one_is_the_log_if_it_has_the_topic_id(
    is_ours: bool,
) -> None:
    """A power cut may remove a log that was never flushed and leave its copy on another disk."""
    lab = ClusterNodeLab(1)
    (node,) = lab.nodes
    node.ask(
        CreateTopicsRequest(topics=(topic("t", 1, 1),), timeout_ms=1_000), CreateTopicsResponse
    )
    name = TopicPartition("t", 0)
    first, second = DIRECTORIES
    assert node.directory_of(name) == first
    topic_id = lab.store.image.topics["t"].topic_id
    batch = build_batch([Record(key=None, value=b"v", timestamp=1)])
    node.ask(produce(topic_id, 0, batch), ProduceResponse)
    node.crash()
    copy = second / future_name(name, bytes(16))
    node.disk.rename(first / "t-0", copy)
    if not is_ours:
        partition_metadata_file.write(node.disk, copy, TopicId(bytes(range(16))))
    lab.run(10_000)
    node.start()
    lab.run(2_000)
    hosted = node.partitions.find(*name)
    assert hosted is not None
    assert hosted.open_log().end_offset == (1 if is_ours else 0)
    assert copy.name not in node.disk.names(second)


def test_a_reassigned_replica_is_created_in_the_requested_log_directory() -> None:
    """KIP-113: the broker answers that it has no such replica, and remembers the directory."""
    lab = ClusterNodeLab(2)
    node, other = lab.nodes
    node.ask(
        CreateTopicsRequest(topics=(topic("t", 3, 1),), timeout_ms=1_000), CreateTopicsResponse
    )
    image = lab.store.image
    states = image.topics["t"].partitions
    numbers = tuple(n for n, state in enumerate(states) if state.replicas == (node.node_id,))
    asked = AlterReplicaLogDir(
        path=str(DIRECTORIES[1]), topics=(AlterReplicaLogDirTopic(name="t", partitions=numbers),)
    )
    answer = other.ask(AlterReplicaLogDirsRequest(dirs=(asked,)), AlterReplicaLogDirsResponse)
    codes = {each.error_code for result in answer.results for each in result.partitions}
    assert codes == {ErrorCode.REPLICA_NOT_AVAILABLE}
    moves = tuple(
        ReassignablePartition(partition_index=number, replicas=(other.node_id,))
        for number in numbers
    )
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=1_000, topics=(ReassignableTopic(name="t", partitions=moves),)
    )
    node.ask(request, AlterPartitionReassignmentsResponse)
    lab.run(5_000)
    homes = {other.directory_of(TopicPartition("t", number)) for number in numbers}
    assert numbers
    assert homes == {DIRECTORIES[1]}


def test_a_partition_added_while_a_disk_is_offline_is_created_on_another_one() -> None:
    """RC-5: only older partitions may be on the offline disk and must not be created again."""
    lab = ClusterNodeLab(1)
    (node,) = lab.nodes
    node.ask(
        CreateTopicsRequest(topics=(topic("t", 2, 1),), timeout_ms=1_000), CreateTopicsResponse
    )
    first, second = DIRECTORIES
    node.crash()
    node.disk.break_under(first)
    lab.run(10_000)
    node.start()
    lab.run(2_000)
    grown = CreatePartitionsTopic(name="t", count=4, assignments=None)
    node.ask(CreatePartitionsRequest(topics=(grown,), timeout_ms=1_000), CreatePartitionsResponse)
    homes = [node.directory_of(TopicPartition("t", number)) for number in range(4)]
    assert homes == [None, second, second, second]
    assert node.partitions.log_dir_error(TopicPartition("t", 0)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert node.partitions.log_dir_error(TopicPartition("t", 3)) is ErrorCode.NONE


class DiskWithoutDescriptors(LossyDisk):
    """For a while no file can be opened."""

    has_none_left = False

    def open(self, path: PurePath, *, create: bool = False, is_kept: bool = False) -> LossyFile:
        if self.has_none_left and path.suffix == ".log":
            raise TooManyOpenFiles("none left")
        return super().open(path, create=create, is_kept=is_kept)


def test_a_log_that_could_not_be_opened_is_opened_later() -> None:
    disk = DiskWithoutDescriptors(random.Random(1), now_ms=lambda: START_MS)
    lab = BrokerLab(disk=disk)
    disk.has_none_left = True
    lab.create("t", 2)
    partitions = lab.broker.partitions
    partitions.open_some(10)
    assert all(each.log is None for each in partitions)
    disk.has_none_left = False
    partitions.open_some(10)
    assert all(each.log is not None for each in partitions)
