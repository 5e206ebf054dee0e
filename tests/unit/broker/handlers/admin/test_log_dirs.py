"""DescribeLogDirs and AlterReplicaLogDirs."""

from pathlib import PurePath

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import StorageError
from headwater.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from headwater.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tests.simulation.labs.broker_lab import BrokerLab

ONE, TWO = PurePath("/data"), PurePath("/more")
EVERYTHING = DescribeLogDirsRequest(topics=None)


def two_directories() -> BrokerLab:
    """A broker with one partition in each of two directories."""
    lab = BrokerLab(paths=(ONE, TWO))
    lab.create("t", 2)
    lab.produce("t", b"v")
    lab.produce("t", b"v" * 100, partition=1)
    return lab


def partitions_of(result: DescribeLogDirsResult) -> list[tuple[str, int]]:
    return [
        (topic.name, each.partition_index) for topic in result.topics for each in topic.partitions
    ]


def test_directories_are_described_with_partitions_and_free_space() -> None:
    lab = BrokerLab()
    lab.create("t", 2)
    lab.produce("t", b"v")
    (result,) = lab.ask(EVERYTHING, DescribeLogDirsResponse).results
    log = lab.broker.partitions.find("t", 0)
    assert log is not None
    size_bytes = log.open_log().size_bytes
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


def test_null_requests_all_partitions_and_an_empty_list_none() -> None:
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


def test_offline_directory_is_described_with_an_error_only() -> None:
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


def test_move_to_the_current_directory_does_nothing_and_to_an_unknown_one_fails() -> None:
    lab = two_directories()
    results = lab.ask(EVERYTHING, DescribeLogDirsResponse).results
    home = next(each.log_dir for each in results if ("t", 0) in partitions_of(each))
    assert move(lab, home, "t", 0) is ErrorCode.NONE
    assert move(lab, home, "t", 9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for elsewhere in ("/nowhere", "data", home + "/"):
        assert move(lab, elsewhere, "t", 9) is ErrorCode.LOG_DIR_NOT_FOUND
    lab.broker.directories.directories[1].fence(StorageError("unplugged"))
    assert move(lab, "/more", "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR


def places(lab: BrokerLab, name: tuple[str, int]) -> list[tuple[str, bool, int]]:
    """Return where a partition is: directory, whether it is the future log, and its lag."""
    results = lab.ask(EVERYTHING, DescribeLogDirsResponse).results
    return [
        (result.log_dir, each.is_future_key, each.offset_lag)
        for result in results
        for topic in result.topics
        for each in topic.partitions
        if (topic.name, each.partition_index) == name
    ]


def elsewhere_from(home: str) -> str:
    return str(TWO if home == str(ONE) else ONE)


def test_moving_partition_is_described_as_future_log_until_it_has_moved() -> None:
    lab = two_directories()
    ((home, _, _),) = places(lab, ("t", 0))
    target = elsewhere_from(home)
    assert move(lab, target, "t", 0) is ErrorCode.NONE
    assert sorted(places(lab, ("t", 0))) == sorted([(home, False, 0), (target, True, 1)])
    lab.pass_time(100)
    assert places(lab, ("t", 0)) == [(target, False, 0)]
    lab.produce("t", b"after")
    hosted = lab.broker.partitions.find("t", 0)
    assert hosted is not None
    assert hosted.open_log().end_offset == 2


def test_move_back_to_the_current_directory_cancels_the_move() -> None:
    lab = two_directories()
    ((home, _, _),) = places(lab, ("t", 0))
    assert move(lab, elsewhere_from(home), "t", 0) is ErrorCode.NONE
    assert move(lab, home, "t", 0) is ErrorCode.NONE
    lab.pass_time(100)
    assert places(lab, ("t", 0)) == [(home, False, 0)]


def test_unused_partition_is_created_in_the_requested_directory() -> None:
    lab = BrokerLab(paths=(ONE, TWO))
    lab.create("first")
    lab.create("wanted")
    for topic in ("first", "wanted"):
        assert move(lab, "/more", topic, 0) is ErrorCode.NONE
        lab.produce(topic, b"v")
        assert places(lab, (topic, 0)) == [("/more", False, 0)]


def test_later_topic_is_created_in_the_requested_directory() -> None:
    lab = two_directories()
    for topic in ("soon", "later"):
        assert move(lab, "/more", topic, 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        lab.create(topic)
        lab.produce(topic, b"v")
        assert places(lab, (topic, 0)) == [("/more", False, 0)]


def test_topics_with_the_longest_names_cannot_move() -> None:
    """The folder of the future log would exceed the limit of file systems, as in Kafka."""
    lab = BrokerLab(paths=(ONE, TWO))
    assert move(lab, "/more", "t" * 214, 0) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert move(lab, "/more", "t" * 213, 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_partition_in_an_offline_directory_cannot_move() -> None:
    lab = two_directories()
    ((home, _, _),) = places(lab, ("t", 0))
    failed = next(each for each in lab.broker.directories.directories if str(each.path) == home)
    failed.fence(StorageError("unplugged"))
    assert move(lab, elsewhere_from(home), "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
