"""PushTelemetry: validate and discard a client's metrics (KIP-714)."""

from headwater.broker.handlers.data.client_telemetry import LARGEST_BYTES, subscription_id
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID
from headwater.metadata.controller_result import ApiError
from headwater.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from headwater.records.batch_header import Codec


def handle(_: Broker, request: PushTelemetryRequest, call: Call) -> PushTelemetryResponse:
    code = _why_not(request)
    if code:
        call.note_error(code)
    return PushTelemetryResponse(error_code=code)


def error_response(_: PushTelemetryRequest, refusal: ApiError) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=refusal.code)


def _why_not(request: PushTelemetryRequest) -> ErrorCode:
    if request.client_instance_id == NO_TOPIC_ID:
        return ErrorCode.INVALID_REQUEST
    if request.subscription_id != subscription_id(request.client_instance_id):
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if request.compression_type not in list(Codec):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(request.metrics) > LARGEST_BYTES:
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE
