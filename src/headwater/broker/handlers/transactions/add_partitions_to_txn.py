"""AddPartitionsToTxn: add partitions to transactions, or verify them (TX-4).

Up to version 3 a client adds partitions to its transaction. From version 4 on, partition leaders
send requests about many transactions, to add partitions or only to verify them (TX-13). Each
transaction goes to its coordinator shard; those of one shard go together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.broker.coordinators.led_shards import handle_in_shard
from headwater.broker.coordinators.transaction_coordinator import TransactionEvent
from headwater.broker.handlers.groups.group_requests import GatheredResponses
from headwater.broker.handlers.transactions.transaction_requests import (
    is_authorized_for_transaction,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.coordinator.runtime.coordinator_context import CoordinatorContext
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.coordinator.transaction.add_partitions_to_txn import (
    reject_invalid_partitions,
    uniform_result,
)
from headwater.metadata.internal_topics import INTERNAL_TOPICS
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation

_FROM_LEADERS_SINCE: Final = 4

Results = GatheredResponses[AddPartitionsToTxnResult]


@dataclass(slots=True)
class _ShardTransactions:
    """The transactions of one request that belong to one shard, by their index."""

    shard: CoordinatorContext[TransactionEvent]
    places: list[int] = field(default_factory=list)


def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, call: Call
) -> AddPartitionsToTxnResponse | None:
    is_from_leader = call.version >= _FROM_LEADERS_SINCE
    if is_from_leader and not broker.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        call.record_error(code)
        return AddPartitionsToTxnResponse(error_code=code)
    if not request.transactions:
        return AddPartitionsToTxnResponse()

    def done(results: Sequence[AddPartitionsToTxnResult]) -> None:
        call.answer(AddPartitionsToTxnResponse(results_by_transaction=tuple(results)))

    gathering = GatheredResponses(len(request.transactions), done)
    by_shard: dict[int, _ShardTransactions] = {}
    for place, transaction in enumerate(request.transactions):
        errors = _transaction_error(broker, transaction, call)
        if errors is not None:
            gathering.put(place, errors)
            continue
        shard = broker.transactions.shard_of(transaction.transactional_id)
        if isinstance(shard, ErrorCode):
            call.record_error(shard)
            gathering.put(place, uniform_result(transaction, shard))
        else:
            by_shard.setdefault(shard.number, _ShardTransactions(shard)).places.append(place)
    for shard_transactions in by_shard.values():
        _ask(request, call, shard_transactions, gathering)
    return None


def error_response(
    request: AddPartitionsToTxnRequest, error: ApiError
) -> AddPartitionsToTxnResponse:
    """Return an error per partition, for clients, and at the top level, for leaders."""
    return AddPartitionsToTxnResponse(
        error_code=error.code,
        results_by_transaction=tuple(
            uniform_result(each, error.code) for each in request.transactions
        ),
    )


def _ask(
    request: AddPartitionsToTxnRequest,
    call: Call,
    shard_transactions: _ShardTransactions,
    gathering: Results,
) -> None:
    transactions = tuple(request.transactions[place] for place in shard_transactions.places)

    def respond(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.record_error(outcome)
            results = tuple(uniform_result(each, outcome) for each in transactions)
        else:
            assert isinstance(outcome, AddPartitionsToTxnResponse)
            results = outcome.results_by_transaction
        for place, result in zip(shard_transactions.places, results, strict=True):
            gathering.put(place, result)

    part = AddPartitionsToTxnRequest(transactions=transactions)
    handle_in_shard(shard_transactions.shard, part, call, respond)


def _transaction_error(
    broker: Broker, transaction: AddPartitionsToTxnTransaction, call: Call
) -> AddPartitionsToTxnResult | None:
    """Return the errors of a transaction that the coordinator cannot get, if any."""
    is_from_client = call.version < _FROM_LEADERS_SINCE
    if is_from_client and not is_authorized_for_transaction(
        broker, call, transaction.transactional_id
    ):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        call.record_error(code)
        return uniform_result(transaction, code)

    def partition_error(partition: TopicPartition) -> ErrorCode:
        topic = partition.topic
        if is_from_client and (
            topic in INTERNAL_TOPICS
            or not broker.is_authorized_for_topic(call, Operation.WRITE, topic)
        ):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if broker.image.partition(*partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    return reject_invalid_partitions(transaction, partition_error)
