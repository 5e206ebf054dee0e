"""AlterReplicaLogDirs: move partitions to other log directories of this broker."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.model.ids import TopicPartition
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(
    broker: Broker, request: AlterReplicaLogDirsRequest, call: Call
) -> AlterReplicaLogDirsResponse:
    if not broker.may(call, Operation.ALTER, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    results: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            codes = results.setdefault(topic.name, {})
            for number in topic.partitions:
                name = TopicPartition(topic.name, number)
                codes[number] = _move(broker, name, directory.path)
    return _response(results)


def refuse(request: AlterReplicaLogDirsRequest, refusal: Refusal) -> AlterReplicaLogDirsResponse:
    results: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            codes = results.setdefault(topic.name, {})
            codes.update(dict.fromkeys(topic.partitions, refusal.code))
    return _response(results)


def _move(broker: Broker, name: TopicPartition, path: str) -> ErrorCode:
    """A path is compared as it is written, as Kafka does it (4.1)."""
    target = next((each for each in broker.directories.directories if str(each.path) == path), None)
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if target.failure is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    hosted = broker.find(*name)
    if isinstance(hosted, ErrorCode):
        return hosted
    if name not in broker.directories or broker.directories.directory_of(name) is target:
        return ErrorCode.NONE
    # Nothing moves logs between directories yet.
    return ErrorCode.REPLICA_NOT_AVAILABLE


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
