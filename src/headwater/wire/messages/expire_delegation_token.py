"""ExpireDelegationToken: expire delegation token."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import one, shape


@shape
class ExpireDelegationTokenRequest:
    api: ClassVar = ApiKey.EXPIRE_DELEGATION_TOKEN

    hmac: bytes = one("bytes", default=b"")
    expiry_time_period_ms: int = one("int64", default=0)


@shape
class ExpireDelegationTokenResponse:
    api: ClassVar = ApiKey.EXPIRE_DELEGATION_TOKEN

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    expiry_timestamp_ms: int = one("int64", default=0)
    throttle_time_ms: int = one("int32", default=0)
