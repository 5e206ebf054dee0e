"""ConsumerGroupDescribe: describe KIP-848 groups."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class ConsumerGroupDescribeRequest:
    api: ClassVar = ApiKey.CONSUMER_GROUP_DESCRIBE

    group_ids: tuple[str, ...] = many("string", default=())
    include_authorized_operations: bool = one("bool", default=False)


@protocol_message
class TopicPartitions:
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    topic_name: str = one("string", default="")
    partitions: tuple[int, ...] = many("int32", default=())


@protocol_message
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...] = many(TopicPartitions, default=())


@protocol_message
class Member:
    member_id: str = one("string", default="")
    instance_id: str | None = one("string", default=None, nullable_since=0)
    rack_id: str | None = one("string", default=None, nullable_since=0)
    member_epoch: int = one("int32", default=0)
    client_id: str = one("string", default="")
    client_host: str = one("string", default="")
    subscribed_topic_names: tuple[str, ...] = many("string", default=())
    subscribed_topic_regex: str | None = one("string", default=None, nullable_since=0)
    assignment: Assignment = one(Assignment, default=Assignment())
    target_assignment: Assignment = one(Assignment, default=Assignment())
    member_type: int = one("int8", default=-1, since=1, ignorable=True)


@protocol_message
class DescribedGroup:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    group_id: str = one("string", default="")
    group_state: str = one("string", default="")
    group_epoch: int = one("int32", default=0)
    assignment_epoch: int = one("int32", default=0)
    assignor_name: str = one("string", default="")
    members: tuple[Member, ...] = many(Member, default=())
    authorized_operations: int = one("int32", default=-2147483648)


@protocol_message
class ConsumerGroupDescribeResponse:
    api: ClassVar = ApiKey.CONSUMER_GROUP_DESCRIBE

    throttle_time_ms: int = one("int32", default=0)
    groups: tuple[DescribedGroup, ...] = many(DescribedGroup, default=())
