"""LeaderAndIsr: become leader or follower of partitions."""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(broker: Broker, request: LeaderAndIsrRequest, call: Call) -> LeaderAndIsrResponse:
    if not broker.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    return broker.membership.metadata_cache.leader_and_isr(request)


def error_response(_: LeaderAndIsrRequest, error: ApiError) -> LeaderAndIsrResponse:
    return LeaderAndIsrResponse(error_code=error.code)
