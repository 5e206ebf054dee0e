"""PushTelemetry: validate and discard a client's metrics (KIP-714)."""

from headwater.broker.handlers.data.client_telemetry import LARGEST_BYTES, subscription_id
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID
from headwater.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from headwater.records.batch_header import Codec


def handle(_: Broker, request: PushTelemetryRequest, call: Call) -> PushTelemetryResponse:
    code = _request_error(request)
    if code:
        call.record_error(code)
    return PushTelemetryResponse(error_code=code)


def error_response(_: PushTelemetryRequest, error: ApiError) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=error.code)


def _request_error(request: PushTelemetryRequest) -> ErrorCode:
    if request.client_instance_id == NO_TOPIC_ID:
        return ErrorCode.INVALID_REQUEST
    if request.subscription_id != subscription_id(request.client_instance_id):
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if request.compression_type not in list(Codec):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(request.metrics) > LARGEST_BYTES:
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE
