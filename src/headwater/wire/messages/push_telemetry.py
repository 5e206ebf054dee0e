"""PushTelemetry: a client sends its metrics, as OTLP (KIP-714)."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.model.ids import NO_TOPIC_ID, TopicId
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import one, shape


@shape
class PushTelemetryRequest:
    api: ClassVar = ApiKey.PUSH_TELEMETRY

    client_instance_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    subscription_id: int = one("int32", default=0)
    terminating: bool = one("bool", default=False)
    compression_type: int = one("int8", default=0)
    metrics: bytes = one("bytes", default=b"")


@shape
class PushTelemetryResponse:
    api: ClassVar = ApiKey.PUSH_TELEMETRY

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
