"""DescribeLogDirs and AlterReplicaLogDirs."""

from pathlib import PurePath

from headwater.model.errors import ErrorCode
from headwater.model.failures import StorageError
from headwater.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from headwater.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tests.sim.broker_lab import BrokerLab

ONE, TWO = PurePath("/data"), PurePath("/more")
EVERYTHING = DescribeLogDirsRequest(topics=None)


def two_directories() -> BrokerLab:
    """One partition in each."""
    lab = BrokerLab(paths=(ONE, TWO))
    lab.create("t", 2)
    lab.produce("t", b"v")
    lab.produce("t", b"v" * 100, partition=1)
    return lab


def partitions_of(result: DescribeLogDirsResult) -> list[tuple[str, int]]:
    return [
        (topic.name, each.partition_index) for topic in result.topics for each in topic.partitions
    ]


def test_each_directory_tells_what_lies_in_it_and_what_room_is_left() -> None:
    lab = BrokerLab()
    lab.create("t", 2)
    lab.produce("t", b"v")
    (result,) = lab.ask(EVERYTHING, DescribeLogDirsResponse).results
    log = lab.broker.partitions.find("t", 0)
    assert log is not None
    size_bytes = log.opened().size_bytes
    assert size_bytes > 0
    lab.broker.partitions.open_some(10)
    (result,) = lab.ask(EVERYTHING, DescribeLogDirsResponse).results
    assert result == DescribeLogDirsResult(
        log_dir="/data",
        topics=(
            DescribeLogDirsTopic(
                name="t",
                partitions=(
                    DescribeLogDirsPartition(partition_index=0, partition_size=size_bytes),
                    DescribeLogDirsPartition(partition_index=1, partition_size=0),
                ),
            ),
        ),
        total_bytes=1 << 41,
        usable_bytes=1 << 40,
    )


def test_no_list_asks_for_everything_and_an_empty_one_for_nothing() -> None:
    lab = two_directories()
    some = DescribableLogDirTopic(topic="t", partitions=(1, 9))
    gone = DescribableLogDirTopic(topic="gone", partitions=(0,))
    for topics, expected in [
        (None, [("t", 0), ("t", 1)]),
        ((), []),
        ((some, gone), [("t", 1)]),
    ]:
        request = DescribeLogDirsRequest(topics=topics)
        results = lab.ask(request, DescribeLogDirsResponse).results
        assert [result.log_dir for result in results] == ["/data", "/more"]
        assert sorted(each for result in results for each in partitions_of(result)) == expected


def test_a_directory_that_failed_says_so_and_nothing_else() -> None:
    lab = two_directories()
    lab.broker.directories.directories[1].fence(StorageError("unplugged"))
    for request in (EVERYTHING, DescribeLogDirsRequest(topics=())):
        good, bad = lab.ask(request, DescribeLogDirsResponse).results
        assert good.error_code is ErrorCode.NONE
        assert bad == DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir="/more"
        )


def move(lab: BrokerLab, path: str, topic: str, number: int) -> ErrorCode:
    asked = AlterReplicaLogDir(
        path=path, topics=(AlterReplicaLogDirTopic(name=topic, partitions=(number,)),)
    )
    request = AlterReplicaLogDirsRequest(dirs=(asked,))
    (result,) = lab.ask(request, AlterReplicaLogDirsResponse).results
    (partition,) = result.partitions
    assert (result.topic_name, partition.partition_index) == (topic, number)
    return partition.error_code


def test_a_partition_stays_where_it_is_and_goes_nowhere_that_is_not_there() -> None:
    lab = two_directories()
    results = lab.ask(EVERYTHING, DescribeLogDirsResponse).results
    home = next(each.log_dir for each in results if ("t", 0) in partitions_of(each))
    assert move(lab, home, "t", 0) is ErrorCode.NONE
    assert move(lab, home, "t", 9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for elsewhere in ("/nowhere", "data", home + "/"):
        assert move(lab, elsewhere, "t", 9) is ErrorCode.LOG_DIR_NOT_FOUND
    lab.broker.directories.directories[1].fence(StorageError("unplugged"))
    assert move(lab, "/more", "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
