"""AddOffsetsToTxn: add a group's offsets partition to a transaction (TX-4)."""

from headwater.broker.handlers.groups.group_requests import is_authorized_for_group
from headwater.broker.handlers.transactions.transaction_requests import (
    handle_transaction_request,
    is_authorized_for_transaction,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from headwater.protocol.older_versions import Message
from headwater.security.authorization.authorizer import Operation


def handle(broker: Broker, request: AddOffsetsToTxnRequest, call: Call) -> Message | None:
    transactional_id = request.transactional_id
    may_read = is_authorized_for_group(broker, call, Operation.READ, request.group_id)
    if not may_read and is_authorized_for_transaction(broker, call, transactional_id):
        call.record_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return _error_result(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return handle_transaction_request(broker, call, request, transactional_id, _error_result)


def error_response(_: AddOffsetsToTxnRequest, error: ApiError) -> AddOffsetsToTxnResponse:
    return _error_result(error.code)


def _error_result(error: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error)
