"""CreatePartitions: grow partition count."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class CreatePartitionsAssignment:
    broker_ids: tuple[int, ...] = many("int32", default=())


@protocol_message
class CreatePartitionsTopic:
    name: str = one("string", default="")
    count: int = one("int32", default=0)
    assignments: tuple[CreatePartitionsAssignment, ...] | None = many(
        CreatePartitionsAssignment, default=(), nullable_since=0
    )


@protocol_message
class CreatePartitionsRequest:
    api: ClassVar = ApiKey.CREATE_PARTITIONS

    topics: tuple[CreatePartitionsTopic, ...] = many(CreatePartitionsTopic, default=())
    timeout_ms: int = one("int32", default=0)
    validate_only: bool = one("bool", default=False)


@protocol_message
class CreatePartitionsTopicResult:
    name: str = one("string", default="")
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)


@protocol_message
class CreatePartitionsResponse:
    api: ClassVar = ApiKey.CREATE_PARTITIONS

    throttle_time_ms: int = one("int32", default=0)
    results: tuple[CreatePartitionsTopicResult, ...] = many(CreatePartitionsTopicResult, default=())
