"""PushTelemetry: a client sends its metrics, as OTLP (KIP-714)."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import one, protocol_message


@protocol_message
class PushTelemetryRequest:
    api: ClassVar = ApiKey.PUSH_TELEMETRY

    client_instance_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    subscription_id: int = one("int32", default=0)
    terminating: bool = one("bool", default=False)
    compression_type: int = one("int8", default=0)
    metrics: bytes = one("bytes", default=b"")


@protocol_message
class PushTelemetryResponse:
    api: ClassVar = ApiKey.PUSH_TELEMETRY

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
