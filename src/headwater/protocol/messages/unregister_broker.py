"""UnregisterBroker: remove a dead broker registration."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import one, protocol_message


@protocol_message
class UnregisterBrokerRequest:
    api: ClassVar = ApiKey.UNREGISTER_BROKER

    broker_id: int = one("int32", default=0)


@protocol_message
class UnregisterBrokerResponse:
    api: ClassVar = ApiKey.UNREGISTER_BROKER

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
