"""UpdateMetadata: the controller says what the cluster looks like."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


def handle(broker: Broker, request: UpdateMetadataRequest, call: Call) -> UpdateMetadataResponse:
    if not broker.may(call, Operation.CLUSTER_ACTION, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    return broker.membership.reception.update_metadata(request)


def refuse(_: UpdateMetadataRequest, refusal: Refusal) -> UpdateMetadataResponse:
    return UpdateMetadataResponse(error_code=refusal.code)
