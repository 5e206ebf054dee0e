"""DescribeTransactions: state of transactions, from each id's coordinator shard."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from headwater.broker.handlers.groups.group_requests import GatheredResponses
from headwater.broker.handlers.transactions.transaction_requests import (
    is_authorized_for_transaction,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from headwater.security.authorization.authorizer import Operation


def handle(
    broker: Broker, request: DescribeTransactionsRequest, call: Call
) -> DescribeTransactionsResponse | None:
    ids = request.transactional_ids
    if not ids:
        return DescribeTransactionsResponse()

    def done(states: Sequence[TransactionState]) -> None:
        visible = tuple(_visible(broker, call, state) for state in states)
        call.answer(DescribeTransactionsResponse(transaction_states=visible))

    gathering = GatheredResponses(len(ids), done)
    for index, transactional_id in enumerate(ids):
        respond_one = _responding(call, transactional_id, partial(gathering.put, index))
        if is_authorized_for_transaction(broker, call, transactional_id, Operation.DESCRIBE):
            one = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
            broker.transactions.handle_request(transactional_id, one, call, respond_one)
        else:
            respond_one(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return None


def error_response(
    request: DescribeTransactionsRequest, error: ApiError
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=tuple(
            _error_result(each, error.code) for each in request.transactional_ids
        )
    )


def _responding(
    call: Call, transactional_id: str, put: Callable[[TransactionState], None]
) -> Callable[[Outcome], None]:
    def respond(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.record_error(outcome)
            put(_error_result(transactional_id, outcome))
        else:
            assert isinstance(outcome, DescribeTransactionsResponse)
            put(outcome.transaction_states[0])

    return respond


def _visible(broker: Broker, call: Call, state: TransactionState) -> TransactionState:
    """Drop topics that the client may not describe."""
    topics = (
        each
        for each in state.topics
        if broker.is_allowed_for_topic(call, Operation.DESCRIBE, each.topic)
    )
    return replace(state, topics=tuple(topics))


def _error_result(transactional_id: str, code: ErrorCode) -> TransactionState:
    return TransactionState(error_code=code, transactional_id=transactional_id)
