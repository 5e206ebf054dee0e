"""DescribeQuorum: describe voters and observers of the quorum (KIP-595)."""

from headwater.broker.controller_server.controller_services import ControllerServices
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    services: ControllerServices, request: DescribeQuorumRequest, call: Call
) -> DescribeQuorumResponse | None:
    if not services.is_authorized(call, Operation.DESCRIBE, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    services.receive(request, call.answer)
    return None


def error_response(_: DescribeQuorumRequest, error: ApiError) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error.code, error_message=error.reason)
