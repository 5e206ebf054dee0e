"""GetTelemetrySubscriptions: what of a client's metrics somebody wants, which is nothing."""

from typing import Final

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.telemetry import LARGEST_BYTES, PUSH_INTERVAL_MS, subscription_id
from headwater.cluster.decision import Refusal
from headwater.cluster.topic_ids import fresh_topic_id
from headwater.model.ids import NO_TOPIC_ID
from headwater.records.header import Codec
from headwater.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

_ACCEPTED: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)


def handle(
    broker: Broker, request: GetTelemetrySubscriptionsRequest, _: Call
) -> GetTelemetrySubscriptionsResponse:
    client = request.client_instance_id
    if client == NO_TOPIC_ID:
        # A client's id is made like a topic's.
        client = fresh_topic_id((), broker.dice)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client,
        subscription_id=subscription_id(client),
        accepted_compression_types=_ACCEPTED,
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=LARGEST_BYTES,
        delta_temporality=True,
    )


def refuse(
    _: GetTelemetrySubscriptionsRequest, refusal: Refusal
) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(error_code=refusal.code)
