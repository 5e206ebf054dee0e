"""UnregisterBroker: forget a broker that will not come back.

A broker that is up is not forgotten, in contrast to Kafka, where it would go on serving unknown to
its cluster until its next start.
"""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.metadata.controller_result import ApiError
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
        reason = f"broker {request.broker_id} is up"
        return error_response(request, ApiError(ErrorCode.INVALID_REQUEST, reason))
    reason = f"there is no broker {request.broker_id}"
    return error_response(request, ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, reason))


def error_response(_: UnregisterBrokerRequest, refusal: ApiError) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=refusal.code, error_message=refusal.reason)
