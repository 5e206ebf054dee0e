"""CreatePartitions: grow partition count."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class CreatePartitionsAssignment:
    broker_ids: tuple[int, ...] = many("int32", default=())


@shape
class CreatePartitionsTopic:
    name: str = one("string", default="")
    count: int = one("int32", default=0)
    assignments: tuple[CreatePartitionsAssignment, ...] | None = many(
        CreatePartitionsAssignment, default=(), nullable_since=0
    )


@shape
class CreatePartitionsRequest:
    api: ClassVar = ApiKey.CREATE_PARTITIONS

    topics: tuple[CreatePartitionsTopic, ...] = many(CreatePartitionsTopic, default=())
    timeout_ms: int = one("int32", default=0)
    validate_only: bool = one("bool", default=False)


@shape
class CreatePartitionsTopicResult:
    name: str = one("string", default="")
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)


@shape
class CreatePartitionsResponse:
    api: ClassVar = ApiKey.CREATE_PARTITIONS

    throttle_time_ms: int = one("int32", default=0)
    results: tuple[CreatePartitionsTopicResult, ...] = many(CreatePartitionsTopicResult, default=())
