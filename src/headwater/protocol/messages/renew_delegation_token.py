"""RenewDelegationToken: renew delegation token."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import one, protocol_message


@protocol_message
class RenewDelegationTokenRequest:
    api: ClassVar = ApiKey.RENEW_DELEGATION_TOKEN

    hmac: bytes = one("bytes", default=b"")
    renew_period_ms: int = one("int64", default=0)


@protocol_message
class RenewDelegationTokenResponse:
    api: ClassVar = ApiKey.RENEW_DELEGATION_TOKEN

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    expiry_timestamp_ms: int = one("int64", default=0)
    throttle_time_ms: int = one("int32", default=0)
