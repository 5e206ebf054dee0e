"""EndTxn: commit or abort; v5+ returns bumped epoch (KIP-890)."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import one, shape


@shape
class EndTxnRequest:
    api: ClassVar = ApiKey.END_TXN

    transactional_id: str = one("string", default="")
    producer_id: int = one("int64", default=0)
    producer_epoch: int = one("int16", default=0)
    committed: bool = one("bool", default=False)


@shape
class EndTxnResponse:
    api: ClassVar = ApiKey.END_TXN

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    producer_id: int = one("int64", default=-1, since=5, ignorable=True)
    producer_epoch: int = one("int16", default=-1, since=5, ignorable=True)
