"""ControlledShutdown: a stopping broker asks the controller to move its leaders."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class ControlledShutdownRequest:
    api: ClassVar = ApiKey.CONTROLLED_SHUTDOWN

    broker_id: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)


@protocol_message
class RemainingPartition:
    topic_name: str = one("string", default="")
    partition_index: int = one("int32", default=0)


@protocol_message
class ControlledShutdownResponse:
    api: ClassVar = ApiKey.CONTROLLED_SHUTDOWN

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    remaining_partitions: tuple[RemainingPartition, ...] = many(RemainingPartition, default=())
