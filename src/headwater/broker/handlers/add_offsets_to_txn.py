"""AddOffsetsToTxn: a transaction is going to commit offsets of a group (TX-4)."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import may_group
from headwater.broker.transaction_requests import ask_coordinator, may_transact
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.security.authorization import Operation
from headwater.wire.lifting import Message
from headwater.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)


def handle(broker: Broker, request: AddOffsetsToTxnRequest, call: Call) -> Message | None:
    transactional_id = request.transactional_id
    may_read = may_group(broker, call, Operation.READ, request.group_id)
    if not may_read and may_transact(broker, call, transactional_id):
        call.note_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return ask_coordinator(broker, call, request, transactional_id, _refused)


def refuse(_: AddOffsetsToTxnRequest, refusal: Refusal) -> AddOffsetsToTxnResponse:
    return _refused(refusal.code)


def _refused(error: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error)
