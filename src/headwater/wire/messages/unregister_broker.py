"""UnregisterBroker: remove a dead broker registration."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import one, shape


@shape
class UnregisterBrokerRequest:
    api: ClassVar = ApiKey.UNREGISTER_BROKER

    broker_id: int = one("int32", default=0)


@shape
class UnregisterBrokerResponse:
    api: ClassVar = ApiKey.UNREGISTER_BROKER

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
