"""SaslHandshake: announce SASL mechanism; reply lists enabled mechanisms."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class SaslHandshakeRequest:
    api: ClassVar = ApiKey.SASL_HANDSHAKE

    mechanism: str = one("string", default="")


@protocol_message
class SaslHandshakeResponse:
    api: ClassVar = ApiKey.SASL_HANDSHAKE

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    mechanisms: tuple[str, ...] = many("string", default=())
