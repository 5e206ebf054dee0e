"""GetTelemetrySubscriptions: always an empty subscription (KIP-714)."""

from typing import Final

from headwater.broker.handlers.data.client_telemetry import (
    LARGEST_BYTES,
    PUSH_INTERVAL_MS,
    subscription_id,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.ids import NO_TOPIC_ID
from headwater.metadata.topic_ids import new_topic_id
from headwater.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from headwater.records.batch_header import Codec

_ACCEPTED: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)


def handle(
    broker: Broker, request: GetTelemetrySubscriptionsRequest, _: Call
) -> GetTelemetrySubscriptionsResponse:
    client = request.client_instance_id
    if client == NO_TOPIC_ID:
        # A client instance id is a random UUID like a topic id.
        client = new_topic_id((), broker.rng)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client,
        subscription_id=subscription_id(client),
        accepted_compression_types=_ACCEPTED,
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=LARGEST_BYTES,
        delta_temporality=True,
    )


def error_response(
    _: GetTelemetrySubscriptionsRequest, error: ApiError
) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(error_code=error.code)
