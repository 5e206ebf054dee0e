"""EndTxn: commit or abort a transaction (TX-5, TX-14)."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.transaction_requests import ask_coordinator
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.wire.lifting import Message
from headwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


def handle(broker: Broker, request: EndTxnRequest, call: Call) -> Message | None:
    return ask_coordinator(broker, call, request, request.transactional_id, _refused)


def refuse(_: EndTxnRequest, refusal: Refusal) -> EndTxnResponse:
    return _refused(refusal.code)


def _refused(error: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=error)
