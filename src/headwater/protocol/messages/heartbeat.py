"""Heartbeat: keep a classic member alive; tells it when to rejoin."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import one, protocol_message


@protocol_message
class HeartbeatRequest:
    api: ClassVar = ApiKey.HEARTBEAT

    group_id: str = one("string", default="")
    generation_id: int = one("int32", default=0)
    member_id: str = one("string", default="")
    group_instance_id: str | None = one("string", default=None, since=3, nullable_since=3)


@protocol_message
class HeartbeatResponse:
    api: ClassVar = ApiKey.HEARTBEAT

    throttle_time_ms: int = one("int32", default=0, since=1, ignorable=True)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
