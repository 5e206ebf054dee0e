"""Shared parts of the transaction APIs: authorization and coordinator requests."""

from collections.abc import Callable

from headwater.broker.handlers.groups.group_requests import response_callback
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.protocol.older_versions import Message
from headwater.security.authorization.authorizer import Operation, Resource, ResourceKind


def is_authorized_for_transaction(
    broker: Broker, call: Call, transactional_id: str, operation: Operation = Operation.WRITE
) -> bool:
    return broker.is_authorized(
        call, operation, Resource(ResourceKind.TRANSACTIONAL_ID, transactional_id)
    )


def handle_transaction_request(
    broker: Broker,
    call: Call,
    request: Message,
    transactional_id: str,
    error_response: Callable[[ErrorCode], Message],
) -> Message | None:
    """Pass a request to the coordinator if the client has Write on the id (AC-4)."""
    if not is_authorized_for_transaction(broker, call, transactional_id):
        call.record_error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return error_response(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    broker.transactions.handle_request(
        transactional_id, request, call, response_callback(call, error_response)
    )
    return None
