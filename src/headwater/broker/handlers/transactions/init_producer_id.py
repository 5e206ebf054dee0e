"""InitProducerId: allocate a producer id, or initialise a transactional id.

Note: a producer without a transactional id that sends its current producer id and epoch, to recover
from an error, gets a new producer id, as in Kafka 4.1.
"""

from typing import Final

from headwater.broker.handlers.transactions.transaction_requests import (
    handle_transaction_request,
    is_authorized_for_transaction,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_EPOCH, NO_PRODUCER, ProducerId
from headwater.coordinator.transaction.init_producer_id import error_response as refused_with
from headwater.coordinator.transaction.init_producer_id import validate_request
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.older_versions import Message
from headwater.security.authorization.authorizer import CLUSTER, Operation, ResourceKind

_FIRST_EPOCH: Final = 0


def handle(broker: Broker, request: InitProducerIdRequest, call: Call) -> Message | None:
    if request.transactional_id is not None:
        return _initialise(broker, request, call, request.transactional_id)
    code = _request_error(broker, request, call)
    if code is not None:
        call.record_error(code)
        return _error_result(code)

    def taken(outcome: ProducerId | ErrorCode) -> None:
        if isinstance(outcome, ErrorCode):
            call.record_error(outcome)
            call.answer(_error_result(outcome))
        else:
            call.answer(InitProducerIdResponse(producer_id=outcome, producer_epoch=_FIRST_EPOCH))

    broker.producer_ids.generate(taken)
    return None


def error_response(_: InitProducerIdRequest, error: ApiError) -> InitProducerIdResponse:
    return _error_result(error.code)


def _initialise(
    broker: Broker, request: InitProducerIdRequest, call: Call, transactional_id: str
) -> Message | None:
    """Initialise a transactional id.

    Errors of the request itself are reported by any broker, whether it is the coordinator or not.
    """

    def refused(code: ErrorCode) -> InitProducerIdResponse:
        return refused_with(call.version, code)

    code = validate_request(request, broker.transactions.settings)
    if code is not None and is_authorized_for_transaction(broker, call, transactional_id):
        call.record_error(code)
        return refused(code)
    return handle_transaction_request(broker, call, request, transactional_id, refused)


def _request_error(broker: Broker, request: InitProducerIdRequest, call: Call) -> ErrorCode | None:
    # Write on any topic implies IdempotentWrite (PV-8).
    if not broker.is_allowed(call, Operation.IDEMPOTENT_WRITE, CLUSTER) and (
        not broker.authorizer.authorize_any(call.requester, Operation.WRITE, ResourceKind.TOPIC)
    ):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    has_id, has_epoch = request.producer_id >= 0, request.producer_epoch >= 0
    if has_id != has_epoch or request.producer_id < NO_PRODUCER:
        return ErrorCode.INVALID_REQUEST
    return None


def _error_result(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER, producer_epoch=NO_EPOCH)
