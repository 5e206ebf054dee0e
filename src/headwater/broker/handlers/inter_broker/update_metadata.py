"""UpdateMetadata: apply cluster metadata from the controller."""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(broker: Broker, request: UpdateMetadataRequest, call: Call) -> UpdateMetadataResponse:
    if not broker.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    return broker.membership.metadata_cache.update_metadata(request)


def error_response(_: UpdateMetadataRequest, error: ApiError) -> UpdateMetadataResponse:
    return UpdateMetadataResponse(error_code=error.code)
