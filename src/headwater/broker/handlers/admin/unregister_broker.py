"""UnregisterBroker: remove a broker that will not return.

Unlike in Kafka, a live broker is rejected: it would keep serving while its cluster has forgotten
it, until its next start.
"""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: Broker, request: UnregisterBrokerRequest, call: Call
) -> UnregisterBrokerResponse:
    if not broker.is_authorized(call, Operation.ALTER, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if NodeId(request.broker_id) in broker.image.brokers:
        reason = f"broker {request.broker_id} is alive; stop it first"
        return error_response(request, ApiError(ErrorCode.INVALID_REQUEST, reason))
    reason = f"broker {request.broker_id} is not registered"
    return error_response(request, ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, reason))


def error_response(_: UnregisterBrokerRequest, error: ApiError) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.reason)
