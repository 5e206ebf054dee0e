"""Envelope: forward a client's request from a broker to the controller (KIP-590).

Request and response are complete frames without their size field, headers included, as the client
wrote them and will read them.
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import one, protocol_message


@protocol_message
class EnvelopeRequest:
    api: ClassVar = ApiKey.ENVELOPE

    request_data: bytes = one("bytes", default=b"")
    request_principal: bytes | None = one("bytes", default=b"", nullable_since=0)
    client_host_address: bytes = one("bytes", default=b"")


@protocol_message
class EnvelopeResponse:
    api: ClassVar = ApiKey.ENVELOPE

    response_data: bytes | None = one("bytes", default=None, nullable_since=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
