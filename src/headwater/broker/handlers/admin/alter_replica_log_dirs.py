"""AlterReplicaLogDirs: move partitions to other log directories (KIP-113).

The response says that a move has started; DescribeLogDirs shows its progress.

Note: a partition that is not on this broker gets an error, but its directory is remembered: if a
reassignment adds it later, it is created there.
"""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import TopicPartition
from headwater.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation
from headwater.storage.log_manager.partition_directory_names import (
    MAX_NAME_CHARACTERS,
    UNIQUE_BYTES,
    future_name,
)


def handle(
    broker: Broker, request: AlterReplicaLogDirsRequest, call: Call
) -> AlterReplicaLogDirsResponse:
    if not broker.is_authorized(call, Operation.ALTER, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    results: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            codes = results.setdefault(topic.name, {})
            for number in topic.partitions:
                name = TopicPartition(topic.name, number)
                codes[number] = _move(broker, name, directory.path)
    return _response(results)


def error_response(
    request: AlterReplicaLogDirsRequest, error: ApiError
) -> AlterReplicaLogDirsResponse:
    results: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            codes = results.setdefault(topic.name, {})
            codes.update(dict.fromkeys(topic.partitions, error.code))
    return _response(results)


def _move(broker: Broker, name: TopicPartition, path: str) -> ErrorCode:
    """Move one partition. As in Kafka 4.1, the path is compared literally."""
    if len(future_name(name, bytes(UNIQUE_BYTES))) > MAX_NAME_CHARACTERS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    target = next((each for each in broker.directories.directories if str(each.path) == path), None)
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if target.failure is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    hosted = broker.find(*name)
    if isinstance(hosted, ErrorCode):
        broker.directories.set_preferred_directory(name, target)
        is_elsewhere = hosted is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else hosted
    trouble = broker.partitions.log_dir_error(name)
    if trouble is not ErrorCode.NONE:
        return trouble
    if name not in broker.directories:
        # It is on this broker, but its log has not been created yet.
        broker.directories.set_preferred_directory(name, target)
        return ErrorCode.NONE
    try:
        broker.directories.moves.begin(name, target, hosted.topic_id, now_ms=broker.clock.now_ms())
    except HeadwaterError as error:
        return error.code
    return ErrorCode.NONE


def _response(results: dict[str, dict[int, ErrorCode]]) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(
                topic_name=topic,
                partitions=tuple(
                    AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                    for number, code in codes.items()
                ),
            )
            for topic, codes in results.items()
        )
    )
