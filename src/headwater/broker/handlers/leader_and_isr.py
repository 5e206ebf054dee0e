"""LeaderAndIsr: the controller says what this broker is to its partitions."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


def handle(broker: Broker, request: LeaderAndIsrRequest, call: Call) -> LeaderAndIsrResponse:
    if not broker.may(call, Operation.CLUSTER_ACTION, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    return broker.membership.reception.leader_and_isr(request)


def refuse(_: LeaderAndIsrRequest, refusal: Refusal) -> LeaderAndIsrResponse:
    return LeaderAndIsrResponse(error_code=refusal.code)
