"""DescribeTopicPartitions.

Paginated topic/partition description (KIP-966), includes ELR. Clients fall back to Metadata
when absent.
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class TopicRequest:
    name: str = one("string", default="")


@protocol_message
class Cursor:
    topic_name: str = one("string", default="")
    partition_index: int = one("int32", default=0)


@protocol_message
class DescribeTopicPartitionsRequest:
    api: ClassVar = ApiKey.DESCRIBE_TOPIC_PARTITIONS

    topics: tuple[TopicRequest, ...] = many(TopicRequest, default=())
    response_partition_limit: int = one("int32", default=2000)
    cursor: Cursor | None = one(Cursor, default=None, nullable_since=0)


@protocol_message
class DescribeTopicPartitionsResponsePartition:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    partition_index: int = one("int32", default=0)
    leader_id: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=-1)
    replica_nodes: tuple[int, ...] = many("int32", default=())
    isr_nodes: tuple[int, ...] = many("int32", default=())
    eligible_leader_replicas: tuple[int, ...] | None = many("int32", default=None, nullable_since=0)
    last_known_elr: tuple[int, ...] | None = many("int32", default=None, nullable_since=0)
    offline_replicas: tuple[int, ...] = many("int32", default=())


@protocol_message
class DescribeTopicPartitionsResponseTopic:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    name: str | None = one("string", default="", nullable_since=0)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    is_internal: bool = one("bool", default=False)
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = many(
        DescribeTopicPartitionsResponsePartition, default=()
    )
    topic_authorized_operations: int = one("int32", default=-2147483648)


@protocol_message
class DescribeTopicPartitionsResponse:
    api: ClassVar = ApiKey.DESCRIBE_TOPIC_PARTITIONS

    throttle_time_ms: int = one("int32", default=0)
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = many(
        DescribeTopicPartitionsResponseTopic, default=()
    )
    next_cursor: Cursor | None = one(Cursor, default=None, nullable_since=0)
