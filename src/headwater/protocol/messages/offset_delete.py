"""OffsetDelete: delete committed offsets of a group."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class OffsetDeleteRequestPartition:
    partition_index: int = one("int32", default=0)


@protocol_message
class OffsetDeleteRequestTopic:
    name: str = one("string", default="")
    partitions: tuple[OffsetDeleteRequestPartition, ...] = many(
        OffsetDeleteRequestPartition, default=()
    )


@protocol_message
class OffsetDeleteRequest:
    api: ClassVar = ApiKey.OFFSET_DELETE

    group_id: str = one("string", default="")
    topics: tuple[OffsetDeleteRequestTopic, ...] = many(OffsetDeleteRequestTopic, default=())


@protocol_message
class OffsetDeleteResponsePartition:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class OffsetDeleteResponseTopic:
    name: str = one("string", default="")
    partitions: tuple[OffsetDeleteResponsePartition, ...] = many(
        OffsetDeleteResponsePartition, default=()
    )


@protocol_message
class OffsetDeleteResponse:
    api: ClassVar = ApiKey.OFFSET_DELETE

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    throttle_time_ms: int = one("int32", default=0)
    topics: tuple[OffsetDeleteResponseTopic, ...] = many(OffsetDeleteResponseTopic, default=())
