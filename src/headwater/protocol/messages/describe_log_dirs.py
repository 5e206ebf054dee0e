"""DescribeLogDirs: size and lag per replica, total and usable bytes per volume."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class DescribableLogDirTopic:
    topic: str = one("string", default="")
    partitions: tuple[int, ...] = many("int32", default=())


@protocol_message
class DescribeLogDirsRequest:
    api: ClassVar = ApiKey.DESCRIBE_LOG_DIRS

    topics: tuple[DescribableLogDirTopic, ...] | None = many(
        DescribableLogDirTopic, default=(), nullable_since=0
    )


@protocol_message
class DescribeLogDirsPartition:
    partition_index: int = one("int32", default=0)
    partition_size: int = one("int64", default=0)
    offset_lag: int = one("int64", default=0)
    is_future_key: bool = one("bool", default=False)


@protocol_message
class DescribeLogDirsTopic:
    name: str = one("string", default="")
    partitions: tuple[DescribeLogDirsPartition, ...] = many(DescribeLogDirsPartition, default=())


@protocol_message
class DescribeLogDirsResult:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    log_dir: str = one("string", default="")
    topics: tuple[DescribeLogDirsTopic, ...] = many(DescribeLogDirsTopic, default=())
    total_bytes: int = one("int64", default=-1, since=4, ignorable=True)
    usable_bytes: int = one("int64", default=-1, since=4, ignorable=True)


@protocol_message
class DescribeLogDirsResponse:
    api: ClassVar = ApiKey.DESCRIBE_LOG_DIRS

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE, since=3, ignorable=True)
    results: tuple[DescribeLogDirsResult, ...] = many(DescribeLogDirsResult, default=())
