"""AlterReplicaLogDirs: move replicas between log dirs of one broker (KIP-113)."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class AlterReplicaLogDirTopic:
    name: str = one("string", default="")
    partitions: tuple[int, ...] = many("int32", default=())


@protocol_message
class AlterReplicaLogDir:
    path: str = one("string", default="")
    topics: tuple[AlterReplicaLogDirTopic, ...] = many(AlterReplicaLogDirTopic, default=())


@protocol_message
class AlterReplicaLogDirsRequest:
    api: ClassVar = ApiKey.ALTER_REPLICA_LOG_DIRS

    dirs: tuple[AlterReplicaLogDir, ...] = many(AlterReplicaLogDir, default=())


@protocol_message
class AlterReplicaLogDirPartitionResult:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class AlterReplicaLogDirTopicResult:
    topic_name: str = one("string", default="")
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = many(
        AlterReplicaLogDirPartitionResult, default=()
    )


@protocol_message
class AlterReplicaLogDirsResponse:
    api: ClassVar = ApiKey.ALTER_REPLICA_LOG_DIRS

    throttle_time_ms: int = one("int32", default=0)
    results: tuple[AlterReplicaLogDirTopicResult, ...] = many(
        AlterReplicaLogDirTopicResult, default=()
    )
