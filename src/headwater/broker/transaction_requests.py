"""What the handlers of transaction APIs have in common: rights, and the way to a shard and back."""

from collections.abc import Callable

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import answering
from headwater.model.errors import ErrorCode
from headwater.security.authorization import Operation, Resource, ResourceKind
from headwater.wire.lifting import Message


def may_transact(
    broker: Broker, call: Call, transactional_id: str, operation: Operation = Operation.WRITE
) -> bool:
    return broker.may(call, operation, Resource(ResourceKind.TRANSACTIONAL_ID, transactional_id))


def ask_coordinator(
    broker: Broker,
    call: Call,
    request: Message,
    transactional_id: str,
    refused: Callable[[ErrorCode], Message],
) -> Message | None:
    """Pass on what a producer asks, if it may write under that id (AC-4)."""
    if not may_transact(broker, call, transactional_id):
        call.note_error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    broker.transactions.ask(transactional_id, request, call, answering(call, refused))
    return None
