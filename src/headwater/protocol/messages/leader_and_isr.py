"""LeaderAndIsr: the controller tells a broker what to lead and to follow."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class LeaderAndIsrPartitionState:
    partition_index: int = one("int32", default=0)
    controller_epoch: int = one("int32", default=0)
    leader: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=0)
    isr: tuple[int, ...] = many("int32", default=())
    partition_epoch: int = one("int32", default=0)
    replicas: tuple[int, ...] = many("int32", default=())
    adding_replicas: tuple[int, ...] = many("int32", default=())
    removing_replicas: tuple[int, ...] = many("int32", default=())
    is_new: bool = one("bool", default=False)
    leader_recovery_state: int = one("int8", default=0)


@protocol_message
class LeaderAndIsrTopicState:
    topic_name: str = one("string", default="")
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    partition_states: tuple[LeaderAndIsrPartitionState, ...] = many(
        LeaderAndIsrPartitionState, default=()
    )


@protocol_message
class LeaderAndIsrLiveLeader:
    broker_id: int = one("int32", default=0)
    host_name: str = one("string", default="")
    port: int = one("int32", default=0)


@protocol_message
class LeaderAndIsrRequest:
    api: ClassVar = ApiKey.LEADER_AND_ISR

    controller_id: int = one("int32", default=0)
    is_kraft_controller: bool = one("bool", default=False)
    controller_epoch: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)
    type: int = one("int8", default=0)
    topic_states: tuple[LeaderAndIsrTopicState, ...] = many(LeaderAndIsrTopicState, default=())
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...] = many(LeaderAndIsrLiveLeader, default=())
    # Not in Kafka: sequence number, from 1, of the controller's requests to one broker
    # registration. Receivers that do not know the tag skip it.
    order: int = one("int64", default=0, tag=10_000)


@protocol_message
class LeaderAndIsrPartitionError:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class LeaderAndIsrTopicError:
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    partition_errors: tuple[LeaderAndIsrPartitionError, ...] = many(
        LeaderAndIsrPartitionError, default=()
    )


@protocol_message
class LeaderAndIsrResponse:
    api: ClassVar = ApiKey.LEADER_AND_ISR

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    topics: tuple[LeaderAndIsrTopicError, ...] = many(LeaderAndIsrTopicError, default=())
