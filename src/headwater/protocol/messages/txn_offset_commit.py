"""TxnOffsetCommit: store offsets as part of a transaction (pending until marker)."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class TxnOffsetCommitRequestPartition:
    partition_index: int = one("int32", default=0)
    committed_offset: int = one("int64", default=0)
    committed_leader_epoch: int = one("int32", default=-1, since=2, ignorable=True)
    committed_metadata: str | None = one("string", default="", nullable_since=0)


@protocol_message
class TxnOffsetCommitRequestTopic:
    name: str = one("string", default="")
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = many(
        TxnOffsetCommitRequestPartition, default=()
    )


@protocol_message
class TxnOffsetCommitRequest:
    api: ClassVar = ApiKey.TXN_OFFSET_COMMIT

    transactional_id: str = one("string", default="")
    group_id: str = one("string", default="")
    producer_id: int = one("int64", default=0)
    producer_epoch: int = one("int16", default=0)
    generation_id: int = one("int32", default=-1, since=3)
    member_id: str = one("string", default="", since=3)
    group_instance_id: str | None = one("string", default=None, since=3, nullable_since=3)
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = many(TxnOffsetCommitRequestTopic, default=())


@protocol_message
class TxnOffsetCommitResponsePartition:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class TxnOffsetCommitResponseTopic:
    name: str = one("string", default="")
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = many(
        TxnOffsetCommitResponsePartition, default=()
    )


@protocol_message
class TxnOffsetCommitResponse:
    api: ClassVar = ApiKey.TXN_OFFSET_COMMIT

    throttle_time_ms: int = one("int32", default=0)
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = many(
        TxnOffsetCommitResponseTopic, default=()
    )
