"""StopReplica: the controller tells a broker to stop replicas, and perhaps to delete them."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class StopReplicaPartitionState:
    partition_index: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=-1)
    delete_partition: bool = one("bool", default=False)


@shape
class StopReplicaTopicState:
    topic_name: str = one("string", default="")
    partition_states: tuple[StopReplicaPartitionState, ...] = many(
        StopReplicaPartitionState, default=()
    )


@shape
class StopReplicaRequest:
    api: ClassVar = ApiKey.STOP_REPLICA

    controller_id: int = one("int32", default=0)
    is_kraft_controller: bool = one("bool", default=False)
    controller_epoch: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)
    topic_states: tuple[StopReplicaTopicState, ...] = many(StopReplicaTopicState, default=())
    # Not Kafka's: which request of a controller to one registration of a broker this is, from 1.
    # Whoever does not know the tag passes over it.
    order: int = one("int64", default=0, tag=10_000)


@shape
class StopReplicaPartitionError:
    topic_name: str = one("string", default="")
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@shape
class StopReplicaResponse:
    api: ClassVar = ApiKey.STOP_REPLICA

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    partition_errors: tuple[StopReplicaPartitionError, ...] = many(
        StopReplicaPartitionError, default=()
    )
