"""StopReplica: the controller tells a broker to stop or delete replicas."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class StopReplicaPartitionState:
    partition_index: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=-1)
    delete_partition: bool = one("bool", default=False)


@protocol_message
class StopReplicaTopicState:
    topic_name: str = one("string", default="")
    partition_states: tuple[StopReplicaPartitionState, ...] = many(
        StopReplicaPartitionState, default=()
    )


@protocol_message
class StopReplicaRequest:
    api: ClassVar = ApiKey.STOP_REPLICA

    controller_id: int = one("int32", default=0)
    is_kraft_controller: bool = one("bool", default=False)
    controller_epoch: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)
    topic_states: tuple[StopReplicaTopicState, ...] = many(StopReplicaTopicState, default=())
    # Not in Kafka: sequence number, from 1, of the controller's requests to one broker
    # registration. Receivers that do not know the tag skip it.
    order: int = one("int64", default=0, tag=10_000)


@protocol_message
class StopReplicaPartitionError:
    topic_name: str = one("string", default="")
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class StopReplicaResponse:
    api: ClassVar = ApiKey.STOP_REPLICA

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    partition_errors: tuple[StopReplicaPartitionError, ...] = many(
        StopReplicaPartitionError, default=()
    )
