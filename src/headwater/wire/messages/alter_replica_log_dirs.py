"""AlterReplicaLogDirs: move replicas between log dirs of one broker (KIP-113)."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class AlterReplicaLogDirTopic:
    name: str = one("string", default="")
    partitions: tuple[int, ...] = many("int32", default=())


@shape
class AlterReplicaLogDir:
    path: str = one("string", default="")
    topics: tuple[AlterReplicaLogDirTopic, ...] = many(AlterReplicaLogDirTopic, default=())


@shape
class AlterReplicaLogDirsRequest:
    api: ClassVar = ApiKey.ALTER_REPLICA_LOG_DIRS

    dirs: tuple[AlterReplicaLogDir, ...] = many(AlterReplicaLogDir, default=())


@shape
class AlterReplicaLogDirPartitionResult:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@shape
class AlterReplicaLogDirTopicResult:
    topic_name: str = one("string", default="")
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = many(
        AlterReplicaLogDirPartitionResult, default=()
    )


@shape
class AlterReplicaLogDirsResponse:
    api: ClassVar = ApiKey.ALTER_REPLICA_LOG_DIRS

    throttle_time_ms: int = one("int32", default=0)
    results: tuple[AlterReplicaLogDirTopicResult, ...] = many(
        AlterReplicaLogDirTopicResult, default=()
    )
