"""EndTxn: commit or abort; v5+ returns bumped epoch (KIP-890)."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import one, protocol_message


@protocol_message
class EndTxnRequest:
    api: ClassVar = ApiKey.END_TXN

    transactional_id: str = one("string", default="")
    producer_id: int = one("int64", default=0)
    producer_epoch: int = one("int16", default=0)
    committed: bool = one("bool", default=False)


@protocol_message
class EndTxnResponse:
    api: ClassVar = ApiKey.END_TXN

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    producer_id: int = one("int64", default=-1, since=5, ignorable=True)
    producer_epoch: int = one("int16", default=-1, since=5, ignorable=True)
