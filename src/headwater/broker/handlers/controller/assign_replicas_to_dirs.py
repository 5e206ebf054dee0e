"""AssignReplicasToDirs: record the log directories of replicas (KIP-858)."""

from headwater.broker.controller_server.controller_services import ControllerServices
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    services: ControllerServices, request: AssignReplicasToDirsRequest, call: Call
) -> AssignReplicasToDirsResponse | None:
    if not services.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))

    def failed(error: HeadwaterError) -> None:
        call.record_error(error.code)
        call.answer(error_response(request, ApiError(error.code, str(error))))

    services.active_controller.assign_replicas_to_dirs(request, then=call.answer, on_error=failed)
    return None


def error_response(_: AssignReplicasToDirsRequest, error: ApiError) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(error_code=error.code)
