"""SaslAuthenticate.

One SASL token exchange step wrapped in Kafka framing; may carry session lifetime.
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import one, protocol_message


@protocol_message
class SaslAuthenticateRequest:
    api: ClassVar = ApiKey.SASL_AUTHENTICATE

    auth_bytes: bytes = one("bytes", default=b"")


@protocol_message
class SaslAuthenticateResponse:
    api: ClassVar = ApiKey.SASL_AUTHENTICATE

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    auth_bytes: bytes = one("bytes", default=b"")
    session_lifetime_ms: int = one("int64", default=0, since=1, ignorable=True)
