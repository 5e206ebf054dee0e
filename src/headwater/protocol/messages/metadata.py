"""Metadata: brokers, controller, topics, partitions, leaders; may create topics."""

from typing import ClassVar, Self

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import UnsupportedInVersion
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class MetadataRequestTopic:
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=10, ignorable=True)
    name: str | None = one("string", default="", nullable_since=10)


@protocol_message
class MetadataRequestUpToV0:
    topics: tuple[MetadataRequestTopic, ...] = many(MetadataRequestTopic, default=())

    def lift(self) -> "MetadataRequest":
        """Version 0 requests all topics with an empty list, later versions with null."""
        return MetadataRequest(topics=self.topics or None)

    @classmethod
    def lower(cls, message: "MetadataRequest") -> Self:
        if message.topics == ():
            raise UnsupportedInVersion("version 0 cannot ask for no topics")
        return cls(topics=message.topics or ())


@protocol_message
class MetadataRequest:
    api: ClassVar = ApiKey.METADATA
    older: ClassVar = {0: MetadataRequestUpToV0}

    topics: tuple[MetadataRequestTopic, ...] | None = many(
        MetadataRequestTopic, default=(), nullable_since=0
    )
    allow_auto_topic_creation: bool = one("bool", default=True, since=4)
    include_cluster_authorized_operations: bool = one("bool", default=False, since=8, until=10)
    include_topic_authorized_operations: bool = one("bool", default=False, since=8)


@protocol_message
class MetadataResponseBroker:
    node_id: int = one("int32", default=0)
    host: str = one("string", default="")
    port: int = one("int32", default=0)
    rack: str | None = one("string", default=None, since=1, nullable_since=1, ignorable=True)


@protocol_message
class MetadataResponsePartition:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    partition_index: int = one("int32", default=0)
    leader_id: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=-1, since=7, ignorable=True)
    replica_nodes: tuple[int, ...] = many("int32", default=())
    isr_nodes: tuple[int, ...] = many("int32", default=())
    offline_replicas: tuple[int, ...] = many("int32", default=(), since=5, ignorable=True)


@protocol_message
class MetadataResponseTopic:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    name: str | None = one("string", default="", nullable_since=12)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=10, ignorable=True)
    is_internal: bool = one("bool", default=False, since=1, ignorable=True)
    partitions: tuple[MetadataResponsePartition, ...] = many(MetadataResponsePartition, default=())
    topic_authorized_operations: int = one("int32", default=-2147483648, since=8)


@protocol_message
class MetadataResponse:
    api: ClassVar = ApiKey.METADATA

    throttle_time_ms: int = one("int32", default=0, since=3, ignorable=True)
    brokers: tuple[MetadataResponseBroker, ...] = many(MetadataResponseBroker, default=())
    cluster_id: str | None = one("string", default=None, since=2, nullable_since=2, ignorable=True)
    controller_id: int = one("int32", default=-1, since=1, ignorable=True)
    topics: tuple[MetadataResponseTopic, ...] = many(MetadataResponseTopic, default=())
    cluster_authorized_operations: int = one("int32", default=-2147483648, since=8, until=10)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE, since=13, ignorable=True)
