"""StopReplica: stop and optionally delete local replicas."""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(broker: Broker, request: StopReplicaRequest, call: Call) -> StopReplicaResponse:
    if not broker.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    return broker.membership.metadata_cache.stop_replica(request)


def error_response(_: StopReplicaRequest, error: ApiError) -> StopReplicaResponse:
    return StopReplicaResponse(error_code=error.code)
