"""UnregisterBroker: forget a broker that will not come back.

A broker that is up is not forgotten, in contrast to Kafka, where it would go on serving unknown to
its cluster until its next start.
"""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.model.ids import NodeId
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def handle(
    broker: Broker, request: UnregisterBrokerRequest, call: Call
) -> UnregisterBrokerResponse:
    if not broker.may(call, Operation.ALTER, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if NodeId(request.broker_id) in broker.image.brokers:
        reason = f"broker {request.broker_id} is up"
        return refuse(request, Refusal(ErrorCode.INVALID_REQUEST, reason))
    reason = f"there is no broker {request.broker_id}"
    return refuse(request, Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, reason))


def refuse(_: UnregisterBrokerRequest, refusal: Refusal) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=refusal.code, error_message=refusal.reason)
