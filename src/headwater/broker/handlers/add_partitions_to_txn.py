"""AddPartitionsToTxn: what a transaction writes to, told by clients and by leaders (TX-4).

Up to version 3 a client adds partitions to its transaction. Since then the leaders of partitions
ask about many transactions at once, to add or only to verify (TX-13); each transaction goes to its
shard, and those of one shard together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import Gathering
from headwater.broker.led_shards import ask_shard
from headwater.broker.transaction_coordinator import Told
from headwater.broker.transaction_requests import may_transact
from headwater.cluster.decision import Refusal
from headwater.cluster.topic_names import INTERNAL_TOPICS
from headwater.coordinator.hosted_shard import HostedShard
from headwater.coordinator.pending_answers import Outcome
from headwater.coordinator.transactions.partitions import refuse_unfit, uniform_result
from headwater.model.errors import ErrorCode
from headwater.model.ids import TopicPartition
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)

_FROM_LEADERS_SINCE: Final = 4

Results = Gathering[AddPartitionsToTxnResult]


@dataclass(slots=True)
class _Together:
    """The transactions of one request that have the same shard, by their places in it."""

    shard: HostedShard[Told]
    places: list[int] = field(default_factory=list)


def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, call: Call
) -> AddPartitionsToTxnResponse | None:
    is_from_leader = call.version >= _FROM_LEADERS_SINCE
    if is_from_leader and not broker.may(call, Operation.CLUSTER_ACTION, CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        call.note_error(code)
        return AddPartitionsToTxnResponse(error_code=code)
    if not request.transactions:
        return AddPartitionsToTxnResponse()

    def done(results: Sequence[AddPartitionsToTxnResult]) -> None:
        call.answer(AddPartitionsToTxnResponse(results_by_transaction=tuple(results)))

    gathering = Gathering(len(request.transactions), done)
    by_shard: dict[int, _Together] = {}
    for place, transaction in enumerate(request.transactions):
        refused = _unfit(broker, transaction, call)
        if refused is not None:
            gathering.put(place, refused)
            continue
        shard = broker.transactions.shard_of(transaction.transactional_id)
        if isinstance(shard, ErrorCode):
            call.note_error(shard)
            gathering.put(place, uniform_result(transaction, shard))
        else:
            by_shard.setdefault(shard.number, _Together(shard)).places.append(place)
    for together in by_shard.values():
        _ask(request, call, together, gathering)
    return None


def refuse(request: AddPartitionsToTxnRequest, refusal: Refusal) -> AddPartitionsToTxnResponse:
    """Clients look at partitions, leaders on top."""
    return AddPartitionsToTxnResponse(
        error_code=refusal.code,
        results_by_transaction=tuple(
            uniform_result(each, refusal.code) for each in request.transactions
        ),
    )


def _ask(
    request: AddPartitionsToTxnRequest, call: Call, together: _Together, gathering: Results
) -> None:
    transactions = tuple(request.transactions[place] for place in together.places)

    def gathered(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.note_error(outcome)
            results = tuple(uniform_result(each, outcome) for each in transactions)
        else:
            assert isinstance(outcome, AddPartitionsToTxnResponse)
            results = outcome.results_by_transaction
        for place, result in zip(together.places, results, strict=True):
            gathering.put(place, result)

    part = AddPartitionsToTxnRequest(transactions=transactions)
    ask_shard(together.shard, part, call, gathered)


def _unfit(
    broker: Broker, transaction: AddPartitionsToTxnTransaction, call: Call
) -> AddPartitionsToTxnResult | None:
    """Why a transaction's partitions are not for this caller to add, or for anybody."""
    is_from_client = call.version < _FROM_LEADERS_SINCE
    if is_from_client and not may_transact(broker, call, transaction.transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        call.note_error(code)
        return uniform_result(transaction, code)

    def why_not(partition: TopicPartition) -> ErrorCode:
        topic = partition.topic
        if is_from_client and (
            topic in INTERNAL_TOPICS or not broker.may_topic(call, Operation.WRITE, topic)
        ):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if broker.image.partition(*partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    return refuse_unfit(transaction, why_not)
