"""CreateTopics.

Create topics, auto placement or manual assignment, with configs; validate-only option.
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class CreatableReplicaAssignment:
    partition_index: int = one("int32", default=0)
    broker_ids: tuple[int, ...] = many("int32", default=())


@protocol_message
class CreatableTopicConfig:
    name: str = one("string", default="")
    value: str | None = one("string", default="", nullable_since=0)


@protocol_message
class CreatableTopic:
    name: str = one("string", default="")
    num_partitions: int = one("int32", default=0)
    replication_factor: int = one("int16", default=0)
    assignments: tuple[CreatableReplicaAssignment, ...] = many(
        CreatableReplicaAssignment, default=()
    )
    configs: tuple[CreatableTopicConfig, ...] = many(CreatableTopicConfig, default=())


@protocol_message
class CreateTopicsRequest:
    api: ClassVar = ApiKey.CREATE_TOPICS

    topics: tuple[CreatableTopic, ...] = many(CreatableTopic, default=())
    timeout_ms: int = one("int32", default=60000)
    validate_only: bool = one("bool", default=False)


@protocol_message
class CreatableTopicConfigs:
    name: str = one("string", default="")
    value: str | None = one("string", default="", nullable_since=0)
    read_only: bool = one("bool", default=False)
    config_source: int = one("int8", default=-1)
    is_sensitive: bool = one("bool", default=False)


@protocol_message
class CreatableTopicResult:
    name: str = one("string", default="")
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=7, ignorable=True)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    topic_config_error_code: ErrorCode = one(
        "error_code", default=ErrorCode.NONE, since=5, tag=0, ignorable=True
    )
    num_partitions: int = one("int32", default=-1, since=5, ignorable=True)
    replication_factor: int = one("int16", default=-1, since=5, ignorable=True)
    configs: tuple[CreatableTopicConfigs, ...] | None = many(
        CreatableTopicConfigs, default=(), since=5, nullable_since=5, ignorable=True
    )


@protocol_message
class CreateTopicsResponse:
    api: ClassVar = ApiKey.CREATE_TOPICS

    throttle_time_ms: int = one("int32", default=0)
    topics: tuple[CreatableTopicResult, ...] = many(CreatableTopicResult, default=())
