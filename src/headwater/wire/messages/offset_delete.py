"""OffsetDelete: delete committed offsets of a group."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class OffsetDeleteRequestPartition:
    partition_index: int = one("int32", default=0)


@shape
class OffsetDeleteRequestTopic:
    name: str = one("string", default="")
    partitions: tuple[OffsetDeleteRequestPartition, ...] = many(
        OffsetDeleteRequestPartition, default=()
    )


@shape
class OffsetDeleteRequest:
    api: ClassVar = ApiKey.OFFSET_DELETE

    group_id: str = one("string", default="")
    topics: tuple[OffsetDeleteRequestTopic, ...] = many(OffsetDeleteRequestTopic, default=())


@shape
class OffsetDeleteResponsePartition:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@shape
class OffsetDeleteResponseTopic:
    name: str = one("string", default="")
    partitions: tuple[OffsetDeleteResponsePartition, ...] = many(
        OffsetDeleteResponsePartition, default=()
    )


@shape
class OffsetDeleteResponse:
    api: ClassVar = ApiKey.OFFSET_DELETE

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    throttle_time_ms: int = one("int32", default=0)
    topics: tuple[OffsetDeleteResponseTopic, ...] = many(OffsetDeleteResponseTopic, default=())
