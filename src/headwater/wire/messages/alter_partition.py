"""AlterPartition: partition leader proposes a new ISR to the controller."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.model.ids import NO_TOPIC_ID, TopicId
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class BrokerState:
    broker_id: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)


@shape
class PartitionData:
    partition_index: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=0)
    new_isr_with_epochs: tuple[BrokerState, ...] = many(BrokerState, default=())
    leader_recovery_state: int = one("int8", default=0)
    partition_epoch: int = one("int32", default=0)


@shape
class TopicData:
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    partitions: tuple[PartitionData, ...] = many(PartitionData, default=())


@shape
class AlterPartitionRequest:
    api: ClassVar = ApiKey.ALTER_PARTITION

    broker_id: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)
    topics: tuple[TopicData, ...] = many(TopicData, default=())


@shape
class PartitionResult:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    leader_id: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=0)
    isr: tuple[int, ...] = many("int32", default=())
    leader_recovery_state: int = one("int8", default=0)
    partition_epoch: int = one("int32", default=0)


@shape
class TopicResult:
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    partitions: tuple[PartitionResult, ...] = many(PartitionResult, default=())


@shape
class AlterPartitionResponse:
    api: ClassVar = ApiKey.ALTER_PARTITION

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    topics: tuple[TopicResult, ...] = many(TopicResult, default=())
