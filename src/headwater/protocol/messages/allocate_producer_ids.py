"""AllocateProducerIds: broker asks the controller for a block of producer ids."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import one, protocol_message


@protocol_message
class AllocateProducerIdsRequest:
    api: ClassVar = ApiKey.ALLOCATE_PRODUCER_IDS

    broker_id: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)


@protocol_message
class AllocateProducerIdsResponse:
    api: ClassVar = ApiKey.ALLOCATE_PRODUCER_IDS

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    producer_id_start: int = one("int64", default=0)
    producer_id_len: int = one("int32", default=0)
