"""OffsetForLeaderEpoch.

End offset of a leader epoch; used by followers for truncation and consumers to detect
truncation.
"""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class OffsetForLeaderPartition:
    partition: int = one("int32", default=0)
    current_leader_epoch: int = one("int32", default=-1)
    leader_epoch: int = one("int32", default=0)


@shape
class OffsetForLeaderTopic:
    topic: str = one("string", default="")
    partitions: tuple[OffsetForLeaderPartition, ...] = many(OffsetForLeaderPartition, default=())


@shape
class OffsetForLeaderEpochRequest:
    api: ClassVar = ApiKey.OFFSET_FOR_LEADER_EPOCH

    replica_id: int = one("int32", default=-2, since=3, ignorable=True)
    topics: tuple[OffsetForLeaderTopic, ...] = many(OffsetForLeaderTopic, default=())


@shape
class EpochEndOffset:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    partition: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=-1)
    end_offset: int = one("int64", default=-1)


@shape
class OffsetForLeaderTopicResult:
    topic: str = one("string", default="")
    partitions: tuple[EpochEndOffset, ...] = many(EpochEndOffset, default=())


@shape
class OffsetForLeaderEpochResponse:
    api: ClassVar = ApiKey.OFFSET_FOR_LEADER_EPOCH

    throttle_time_ms: int = one("int32", default=0)
    topics: tuple[OffsetForLeaderTopicResult, ...] = many(OffsetForLeaderTopicResult, default=())
