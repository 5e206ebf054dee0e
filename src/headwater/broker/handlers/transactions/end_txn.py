"""EndTxn: commit or abort a transaction (TX-5, TX-14)."""

from headwater.broker.handlers.transactions.transaction_requests import handle_transaction_request
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.protocol.older_versions import Message


def handle(broker: Broker, request: EndTxnRequest, call: Call) -> Message | None:
    return handle_transaction_request(
        broker, call, request, request.transactional_id, _error_result
    )


def error_response(_: EndTxnRequest, error: ApiError) -> EndTxnResponse:
    return _error_result(error.code)


def _error_result(error: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=error)
