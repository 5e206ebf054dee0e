"""ListOffsets.

Look up offset by timestamp or by special marker (earliest, latest, max-timestamp, local,
tiered).
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class ListOffsetsPartition:
    partition_index: int = one("int32", default=0)
    current_leader_epoch: int = one("int32", default=-1, since=4, ignorable=True)
    timestamp: int = one("int64", default=0)


@protocol_message
class ListOffsetsTopic:
    name: str = one("string", default="")
    partitions: tuple[ListOffsetsPartition, ...] = many(ListOffsetsPartition, default=())


@protocol_message
class ListOffsetsRequest:
    api: ClassVar = ApiKey.LIST_OFFSETS

    replica_id: int = one("int32", default=0)
    isolation_level: int = one("int8", default=0, since=2)
    topics: tuple[ListOffsetsTopic, ...] = many(ListOffsetsTopic, default=())
    timeout_ms: int = one("int32", default=0, since=10, ignorable=True)


@protocol_message
class ListOffsetsPartitionResponse:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    timestamp: int = one("int64", default=-1)
    offset: int = one("int64", default=-1)
    leader_epoch: int = one("int32", default=-1, since=4, ignorable=True)


@protocol_message
class ListOffsetsTopicResponse:
    name: str = one("string", default="")
    partitions: tuple[ListOffsetsPartitionResponse, ...] = many(
        ListOffsetsPartitionResponse, default=()
    )


@protocol_message
class ListOffsetsResponse:
    api: ClassVar = ApiKey.LIST_OFFSETS

    throttle_time_ms: int = one("int32", default=0, since=2, ignorable=True)
    topics: tuple[ListOffsetsTopicResponse, ...] = many(ListOffsetsTopicResponse, default=())
