"""StopReplica: the controller ends replicas of this broker."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


def handle(broker: Broker, request: StopReplicaRequest, call: Call) -> StopReplicaResponse:
    if not broker.may(call, Operation.CLUSTER_ACTION, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    return broker.membership.reception.stop_replica(request)


def refuse(_: StopReplicaRequest, refusal: Refusal) -> StopReplicaResponse:
    return StopReplicaResponse(error_code=refusal.code)
