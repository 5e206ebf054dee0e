"""AddOffsetsToTxn: register a group offsets partition in the transaction."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import one, protocol_message


@protocol_message
class AddOffsetsToTxnRequest:
    api: ClassVar = ApiKey.ADD_OFFSETS_TO_TXN

    transactional_id: str = one("string", default="")
    producer_id: int = one("int64", default=0)
    producer_epoch: int = one("int16", default=0)
    group_id: str = one("string", default="")


@protocol_message
class AddOffsetsToTxnResponse:
    api: ClassVar = ApiKey.ADD_OFFSETS_TO_TXN

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
