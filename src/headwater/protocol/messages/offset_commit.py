"""OffsetCommit.

Store committed offsets for a group (classic and KIP-848 members, and simple consumers).
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class OffsetCommitRequestPartition:
    partition_index: int = one("int32", default=0)
    committed_offset: int = one("int64", default=0)
    committed_leader_epoch: int = one("int32", default=-1, since=6, ignorable=True)
    committed_metadata: str | None = one("string", default="", nullable_since=0)


@protocol_message
class OffsetCommitRequestTopic:
    name: str = one("string", default="", until=9, ignorable=True)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=10, ignorable=True)
    partitions: tuple[OffsetCommitRequestPartition, ...] = many(
        OffsetCommitRequestPartition, default=()
    )


@protocol_message
class OffsetCommitRequest:
    api: ClassVar = ApiKey.OFFSET_COMMIT

    group_id: str = one("string", default="")
    generation_id_or_member_epoch: int = one("int32", default=-1)
    member_id: str = one("string", default="")
    group_instance_id: str | None = one("string", default=None, since=7, nullable_since=7)
    retention_time_ms: int = one("int64", default=-1, until=4, ignorable=True)
    topics: tuple[OffsetCommitRequestTopic, ...] = many(OffsetCommitRequestTopic, default=())


@protocol_message
class OffsetCommitResponsePartition:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class OffsetCommitResponseTopic:
    name: str = one("string", default="", until=9, ignorable=True)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=10, ignorable=True)
    partitions: tuple[OffsetCommitResponsePartition, ...] = many(
        OffsetCommitResponsePartition, default=()
    )


@protocol_message
class OffsetCommitResponse:
    api: ClassVar = ApiKey.OFFSET_COMMIT

    throttle_time_ms: int = one("int32", default=0, since=3, ignorable=True)
    topics: tuple[OffsetCommitResponseTopic, ...] = many(OffsetCommitResponseTopic, default=())
