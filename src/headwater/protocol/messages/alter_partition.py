"""AlterPartition: partition leader proposes a new ISR to the controller."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class BrokerState:
    broker_id: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)


@protocol_message
class PartitionData:
    partition_index: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=0)
    new_isr_with_epochs: tuple[BrokerState, ...] = many(BrokerState, default=())
    leader_recovery_state: int = one("int8", default=0)
    partition_epoch: int = one("int32", default=0)


@protocol_message
class TopicData:
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    partitions: tuple[PartitionData, ...] = many(PartitionData, default=())


@protocol_message
class AlterPartitionRequest:
    api: ClassVar = ApiKey.ALTER_PARTITION

    broker_id: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)
    topics: tuple[TopicData, ...] = many(TopicData, default=())


@protocol_message
class PartitionResult:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    leader_id: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=0)
    isr: tuple[int, ...] = many("int32", default=())
    leader_recovery_state: int = one("int8", default=0)
    partition_epoch: int = one("int32", default=0)


@protocol_message
class TopicResult:
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    partitions: tuple[PartitionResult, ...] = many(PartitionResult, default=())


@protocol_message
class AlterPartitionResponse:
    api: ClassVar = ApiKey.ALTER_PARTITION

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    topics: tuple[TopicResult, ...] = many(TopicResult, default=())
