"""BrokerHeartbeat: a broker reports to the active controller (KIP-631)."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class BrokerHeartbeatRequest:
    api: ClassVar = ApiKey.BROKER_HEARTBEAT

    broker_id: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)
    current_metadata_offset: int = one("int64", default=0)
    want_fence: bool = one("bool", default=False)
    want_shut_down: bool = one("bool", default=False)
    offline_log_dirs: tuple[TopicId, ...] = many("uuid", default=(), since=1, tag=0, tag_since=1)


@protocol_message
class BrokerHeartbeatResponse:
    api: ClassVar = ApiKey.BROKER_HEARTBEAT

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    is_caught_up: bool = one("bool", default=False)
    is_fenced: bool = one("bool", default=True)
    should_shut_down: bool = one("bool", default=False)
