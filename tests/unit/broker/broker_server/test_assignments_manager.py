"""Reports of which log directory has which replica."""

from headwater.broker.broker_server.assignments_manager import REQUEST_MAX, AssignmentsManager
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId
from headwater.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    DirectoryResult,
    PartitionData,
    PartitionResult,
    TopicData,
    TopicResult,
)

TOPIC = TopicId(b"topic-0000000001")
ONE, TWO = TopicId(b"directory-000001"), TopicId(b"directory-000002")


def answer(
    request: AssignReplicasToDirsRequest, codes: dict[int, ErrorCode] | None = None
) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(
        directories=tuple(
            DirectoryResult(
                id=directory.id,
                topics=tuple(
                    TopicResult(
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            PartitionResult(
                                partition_index=each.partition_index,
                                error_code=(codes or {}).get(each.partition_index, ErrorCode.NONE),
                            )
                            for each in topic.partitions
                        ),
                    )
                    for topic in directory.topics
                ),
            )
            for directory in request.directories
        )
    )


def sent(manager: AssignmentsManager, now_ms: int = 0) -> AssignReplicasToDirsRequest:
    request = manager.next_request(now_ms, 5)
    assert request is not None
    return request


def test_replicas_of_all_directories_are_in_one_request() -> None:
    manager = AssignmentsManager(NodeId(3))
    for partition, directory in enumerate((ONE, TWO, ONE)):
        manager.assign(TOPIC, partition, directory)
    assert sent(manager) == AssignReplicasToDirsRequest(
        broker_id=3,
        broker_epoch=5,
        directories=tuple(
            DirectoryData(
                id=directory,
                topics=(
                    TopicData(
                        topic_id=TOPIC,
                        partitions=tuple(PartitionData(partition_index=each) for each in numbers),
                    ),
                ),
            )
            for directory, numbers in ((ONE, (0, 2)), (TWO, (1,)))
        ),
    )


def test_one_request_at_a_time_with_a_bounded_number_of_replicas() -> None:
    manager = AssignmentsManager(NodeId(3))
    for partition in range(REQUEST_MAX + 1):
        manager.assign(TOPIC, partition, ONE)
    first = sent(manager)
    assert manager.next_request(0, 5) is None
    manager.handle_response(answer(first), 0)
    assert len(manager) == 1
    assert sent(manager).directories[0].topics[0].partitions == (
        PartitionData(partition_index=REQUEST_MAX),
    )


def test_confirmed_and_obsolete_replicas_are_not_repeated() -> None:
    manager = AssignmentsManager(NodeId(3))
    for partition in range(3):
        manager.assign(TOPIC, partition, ONE)
    codes = {1: ErrorCode.UNKNOWN_TOPIC_ID, 2: ErrorCode.NOT_CONTROLLER}
    manager.handle_response(answer(sent(manager), codes), 0)
    assert manager.next_request(99, 5) is None
    assert sent(manager, 100).directories[0].topics[0].partitions == (
        PartitionData(partition_index=2),
    )


def test_newer_directory_replaces_the_one_that_was_not_confirmed() -> None:
    manager = AssignmentsManager(NodeId(3))
    manager.assign(TOPIC, 0, ONE)
    sent(manager)
    manager.assign(TOPIC, 0, TWO)
    manager.handle_response(None, 0)
    assert [each.id for each in sent(manager, 100).directories] == [TWO]
