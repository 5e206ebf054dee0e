"""DeleteTopics: delete topics by name or (v6+) by topic id."""

from typing import ClassVar, Self

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import UnsupportedInVersion
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class DeleteTopicsRequestUpToV5:
    topic_names: tuple[str, ...] = many("string", default=())
    timeout_ms: int = one("int32", default=0)

    def lift(self) -> "DeleteTopicsRequest":
        topics = tuple(DeleteTopicState(name=name) for name in self.topic_names)
        return DeleteTopicsRequest(topics=topics, timeout_ms=self.timeout_ms)

    @classmethod
    def lower(cls, message: "DeleteTopicsRequest") -> Self:
        if any(topic.topic_id != NO_TOPIC_ID for topic in message.topics):
            raise UnsupportedInVersion("up to version 5 a topic is deleted by its name")
        names = tuple(topic.name or "" for topic in message.topics)
        return cls(topic_names=names, timeout_ms=message.timeout_ms)


@protocol_message
class DeleteTopicState:
    name: str | None = one("string", default=None, nullable_since=0)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)


@protocol_message
class DeleteTopicsRequest:
    api: ClassVar = ApiKey.DELETE_TOPICS
    older: ClassVar = {5: DeleteTopicsRequestUpToV5}

    topics: tuple[DeleteTopicState, ...] = many(DeleteTopicState, default=())
    timeout_ms: int = one("int32", default=0)


@protocol_message
class DeletableTopicResult:
    name: str | None = one("string", default="", nullable_since=6)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=6, ignorable=True)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one(
        "string", default=None, since=5, nullable_since=5, ignorable=True
    )


@protocol_message
class DeleteTopicsResponse:
    api: ClassVar = ApiKey.DELETE_TOPICS

    throttle_time_ms: int = one("int32", default=0)
    responses: tuple[DeletableTopicResult, ...] = many(DeletableTopicResult, default=())
