"""GetTelemetrySubscriptions: a client requests which metrics to push (KIP-714)."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class GetTelemetrySubscriptionsRequest:
    api: ClassVar = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS

    client_instance_id: TopicId = one("uuid", default=NO_TOPIC_ID)


@protocol_message
class GetTelemetrySubscriptionsResponse:
    api: ClassVar = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    client_instance_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    subscription_id: int = one("int32", default=0)
    accepted_compression_types: tuple[int, ...] = many("int8", default=())
    push_interval_ms: int = one("int32", default=0)
    telemetry_max_bytes: int = one("int32", default=0)
    delta_temporality: bool = one("bool", default=False)
    requested_metrics: tuple[str, ...] = many("string", default=())
