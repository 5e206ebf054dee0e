"""ListTransactions: transactions of this coordinator that the client may describe.

While a shard is loading, the list would be incomplete, so the response is an error.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from headwater.broker.coordinators.led_shards import handle_in_shard
from headwater.broker.handlers.groups.group_requests import GatheredResponses
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.coordinator.transaction.list_transactions import list_matching, merge_lists
from headwater.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from headwater.security.authorization.authorizer import Operation, Resource, ResourceKind


def handle(
    broker: Broker, request: ListTransactionsRequest, call: Call
) -> ListTransactionsResponse | None:
    shards = broker.transactions.shards()
    # Unknown states and invalid filters are reported even if there are no transactions.
    nothing = list_matching(request, (), now_ms=broker.clock.now_ms())
    if not shards or nothing.error_code:
        return nothing

    def done(outcomes: Sequence[Outcome]) -> None:
        responses = [nothing]
        for outcome in outcomes:
            if isinstance(outcome, ErrorCode):
                outcome = ListTransactionsResponse(error_code=outcome)
            assert isinstance(outcome, ListTransactionsResponse)
            responses.append(outcome)
        merged = merge_lists(responses)
        if merged.error_code:
            call.record_error(merged.error_code)
        visible = (
            each
            for each in merged.transaction_states
            if broker.is_allowed(
                call,
                Operation.DESCRIBE,
                Resource(ResourceKind.TRANSACTIONAL_ID, each.transactional_id),
            )
        )
        call.answer(replace(merged, transaction_states=tuple(visible)))

    gathering: GatheredResponses[Outcome] = GatheredResponses(len(shards), done)
    for index, shard in enumerate(shards):
        handle_in_shard(shard, request, call, partial(gathering.put, index))
    return None


def error_response(_: ListTransactionsRequest, error: ApiError) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error.code)
