"""AllocateProducerIds: a broker needs a block of producer ids."""

from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.cluster.producer_ids import allocate_producer_ids
from headwater.model.errors import ErrorCode
from headwater.model.failures import HeadwaterError
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


def handle(
    broker: Broker, request: AllocateProducerIdsRequest, call: Call
) -> AllocateProducerIdsResponse | None:
    if not broker.may(call, Operation.CLUSTER_ACTION, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))

    def failed(error: HeadwaterError) -> None:
        call.note_error(error.code)
        call.answer(refuse(request, Refusal(error.code, None)))

    broker.controller.submit(
        partial(allocate_producer_ids, request=request), then=call.answer, otherwise=failed
    )
    return None


def refuse(_: AllocateProducerIdsRequest, refusal: Refusal) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=refusal.code)
