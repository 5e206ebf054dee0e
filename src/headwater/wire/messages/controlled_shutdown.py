"""ControlledShutdown: a broker that will stop asks the controller to move its leaderships."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class ControlledShutdownRequest:
    api: ClassVar = ApiKey.CONTROLLED_SHUTDOWN

    broker_id: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)


@shape
class RemainingPartition:
    topic_name: str = one("string", default="")
    partition_index: int = one("int32", default=0)


@shape
class ControlledShutdownResponse:
    api: ClassVar = ApiKey.CONTROLLED_SHUTDOWN

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    remaining_partitions: tuple[RemainingPartition, ...] = many(RemainingPartition, default=())
