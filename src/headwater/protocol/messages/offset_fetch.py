"""OffsetFetch: committed offsets, of many groups since version 8.

`require_stable` waits for pending transactions.
"""

from typing import ClassVar, Self

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.older_versions import the_only
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class OffsetFetchRequestTopics:
    name: str = one("string", default="", until=9, ignorable=True)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=10, ignorable=True)
    partition_indexes: tuple[int, ...] = many("int32", default=())


@protocol_message
class OffsetFetchRequestUpToV7:
    group_id: str = one("string", default="")
    topics: tuple[OffsetFetchRequestTopics, ...] | None = many(
        OffsetFetchRequestTopics, default=(), nullable_since=2
    )
    require_stable: bool = one("bool", default=False, since=7)

    def lift(self) -> "OffsetFetchRequest":
        group = OffsetFetchRequestGroup(group_id=self.group_id, topics=self.topics)
        return OffsetFetchRequest(groups=(group,), require_stable=self.require_stable)

    @classmethod
    def lower(cls, message: "OffsetFetchRequest") -> Self:
        group = the_only(message.groups)
        return cls(
            group_id=group.group_id,
            topics=group.topics,
            require_stable=message.require_stable,
        )


@protocol_message
class OffsetFetchRequestGroup:
    group_id: str = one("string", default="")
    member_id: str | None = one("string", default=None, since=9, nullable_since=9, ignorable=True)
    member_epoch: int = one("int32", default=-1, since=9, ignorable=True)
    topics: tuple[OffsetFetchRequestTopics, ...] | None = many(
        OffsetFetchRequestTopics, default=(), nullable_since=0
    )


@protocol_message
class OffsetFetchRequest:
    api: ClassVar = ApiKey.OFFSET_FETCH
    older: ClassVar = {7: OffsetFetchRequestUpToV7}

    groups: tuple[OffsetFetchRequestGroup, ...] = many(OffsetFetchRequestGroup, default=())
    require_stable: bool = one("bool", default=False)


@protocol_message
class OffsetFetchResponsePartitions:
    partition_index: int = one("int32", default=0)
    committed_offset: int = one("int64", default=0)
    committed_leader_epoch: int = one("int32", default=-1, since=5, ignorable=True)
    metadata: str | None = one("string", default="", nullable_since=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class OffsetFetchResponseTopics:
    name: str = one("string", default="", until=9, ignorable=True)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=10, ignorable=True)
    partitions: tuple[OffsetFetchResponsePartitions, ...] = many(
        OffsetFetchResponsePartitions, default=()
    )


@protocol_message
class OffsetFetchResponseUpToV7:
    throttle_time_ms: int = one("int32", default=0, since=3, ignorable=True)
    topics: tuple[OffsetFetchResponseTopics, ...] = many(OffsetFetchResponseTopics, default=())
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE, since=2, ignorable=True)

    def lift(self) -> "OffsetFetchResponse":
        """The group is not in the response; the caller knows it."""
        group = OffsetFetchResponseGroup(topics=self.topics, error_code=self.error_code)
        return OffsetFetchResponse(throttle_time_ms=self.throttle_time_ms, groups=(group,))

    @classmethod
    def lower(cls, message: "OffsetFetchResponse") -> Self:
        group = the_only(message.groups)
        return cls(
            throttle_time_ms=message.throttle_time_ms,
            topics=group.topics,
            error_code=group.error_code,
        )


@protocol_message
class OffsetFetchResponseGroup:
    group_id: str = one("string", default="")
    topics: tuple[OffsetFetchResponseTopics, ...] = many(OffsetFetchResponseTopics, default=())
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class OffsetFetchResponse:
    api: ClassVar = ApiKey.OFFSET_FETCH
    older: ClassVar = {7: OffsetFetchResponseUpToV7}

    throttle_time_ms: int = one("int32", default=0)
    groups: tuple[OffsetFetchResponseGroup, ...] = many(OffsetFetchResponseGroup, default=())
