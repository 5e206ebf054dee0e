"""ConsumerGroupHeartbeat.

KIP-848 single heartbeat API: join, subscribe, ack assignment, leave.
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class TopicPartitions:
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    partitions: tuple[int, ...] = many("int32", default=())


@protocol_message
class ConsumerGroupHeartbeatRequest:
    api: ClassVar = ApiKey.CONSUMER_GROUP_HEARTBEAT

    group_id: str = one("string", default="")
    member_id: str = one("string", default="")
    member_epoch: int = one("int32", default=0)
    instance_id: str | None = one("string", default=None, nullable_since=0)
    rack_id: str | None = one("string", default=None, nullable_since=0)
    rebalance_timeout_ms: int = one("int32", default=-1)
    subscribed_topic_names: tuple[str, ...] | None = many("string", default=None, nullable_since=0)
    subscribed_topic_regex: str | None = one("string", default=None, since=1, nullable_since=1)
    server_assignor: str | None = one("string", default=None, nullable_since=0)
    topic_partitions: tuple[TopicPartitions, ...] | None = many(
        TopicPartitions, default=None, nullable_since=0
    )


@protocol_message
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...] = many(TopicPartitions, default=())


@protocol_message
class ConsumerGroupHeartbeatResponse:
    api: ClassVar = ApiKey.CONSUMER_GROUP_HEARTBEAT

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    member_id: str | None = one("string", default=None, nullable_since=0)
    member_epoch: int = one("int32", default=0)
    heartbeat_interval_ms: int = one("int32", default=0)
    assignment: Assignment | None = one(Assignment, default=None, nullable_since=0)
