"""OffsetForLeaderEpoch.

End offset of a leader epoch; used by followers for truncation and consumers to detect
truncation.
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class OffsetForLeaderPartition:
    partition: int = one("int32", default=0)
    current_leader_epoch: int = one("int32", default=-1)
    leader_epoch: int = one("int32", default=0)


@protocol_message
class OffsetForLeaderTopic:
    topic: str = one("string", default="")
    partitions: tuple[OffsetForLeaderPartition, ...] = many(OffsetForLeaderPartition, default=())


@protocol_message
class OffsetForLeaderEpochRequest:
    api: ClassVar = ApiKey.OFFSET_FOR_LEADER_EPOCH

    replica_id: int = one("int32", default=-2, since=3, ignorable=True)
    topics: tuple[OffsetForLeaderTopic, ...] = many(OffsetForLeaderTopic, default=())


@protocol_message
class EpochEndOffset:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    partition: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=-1)
    end_offset: int = one("int64", default=-1)


@protocol_message
class OffsetForLeaderTopicResult:
    topic: str = one("string", default="")
    partitions: tuple[EpochEndOffset, ...] = many(EpochEndOffset, default=())


@protocol_message
class OffsetForLeaderEpochResponse:
    api: ClassVar = ApiKey.OFFSET_FOR_LEADER_EPOCH

    throttle_time_ms: int = one("int32", default=0)
    topics: tuple[OffsetForLeaderTopicResult, ...] = many(OffsetForLeaderTopicResult, default=())
