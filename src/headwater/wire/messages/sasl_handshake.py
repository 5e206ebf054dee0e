"""SaslHandshake: announce SASL mechanism; reply lists enabled mechanisms."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class SaslHandshakeRequest:
    api: ClassVar = ApiKey.SASL_HANDSHAKE

    mechanism: str = one("string", default="")


@shape
class SaslHandshakeResponse:
    api: ClassVar = ApiKey.SASL_HANDSHAKE

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    mechanisms: tuple[str, ...] = many("string", default=())
