"""RemoveRaftVoter: remove a voter from the quorum (KIP-853)."""

from headwater.broker.controller_server.controller_services import ControllerServices
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    services: ControllerServices, request: RemoveRaftVoterRequest, call: Call
) -> RemoveRaftVoterResponse | None:
    if not services.is_authorized(call, Operation.ALTER, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    services.receive(request, call.answer)
    return None


def error_response(_: RemoveRaftVoterRequest, error: ApiError) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=error.code, error_message=error.reason)
