"""InitProducerId: an id for an idempotent producer. There are no transactional ids yet.

What a reader would get wrong: a producer that sends the id and epoch it has, to go on after an
error, gets a fresh id all the same. Kafka does this (4.1) where there is no transactional id.
"""

from typing import Final

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.model.ids import NO_EPOCH, NO_PRODUCER, ProducerId
from headwater.security.authorization import CLUSTER, Operation, Resource, ResourceKind
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_FIRST_EPOCH: Final = 0


def handle(
    broker: Broker, request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse | None:
    code = _why_not(broker, request, call)
    if code is not None:
        call.note_error(code)
        return _refused(code)

    def taken(outcome: ProducerId | ErrorCode) -> None:
        if isinstance(outcome, ErrorCode):
            call.note_error(outcome)
            call.answer(_refused(outcome))
        else:
            call.answer(InitProducerIdResponse(producer_id=outcome, producer_epoch=_FIRST_EPOCH))

    broker.producer_ids.take(taken)
    return None


def refuse(_: InitProducerIdRequest, refusal: Refusal) -> InitProducerIdResponse:
    return _refused(refusal.code)


def _why_not(broker: Broker, request: InitProducerIdRequest, call: Call) -> ErrorCode | None:
    transactional_id = request.transactional_id
    if transactional_id is None:
        if not broker.may(call, Operation.IDEMPOTENT_WRITE, CLUSTER):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    elif not broker.may(
        call, Operation.WRITE, Resource(ResourceKind.TRANSACTIONAL_ID, transactional_id)
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    has_id, has_epoch = request.producer_id >= 0, request.producer_epoch >= 0
    if has_id != has_epoch or request.producer_id < NO_PRODUCER or transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if transactional_id is None:
        return None
    if not 0 < request.transaction_timeout_ms <= broker.settings.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER, producer_epoch=NO_EPOCH)
