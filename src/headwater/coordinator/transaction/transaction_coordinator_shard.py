"""The transactions of one partition of __transaction_state: requests in, records and markers out.

`decide` looks up what is known of a transactional id, leaves the judgement to the module of the
request, and turns the verdict into effects. `replay` is the only place where a transaction moves.

What a reader would get wrong:

- There is no pending state as Kafka has it. A record is replayed when it is appended, so what is
  pending here is only a decided transaction whose markers are not all written.
- Timers are armed before the append that they watch over, and never cancelled. So an append that
  fails leaves nobody behind, and a timer that finds nothing to do does nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import assert_never

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId, TopicPartition
from headwater.coordinator.records.transaction_records import TransactionLogRecord
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Asked,
    Effect,
    Loaded,
    MarkersAnswered,
    ProducerIdTaken,
    Reply,
    SetTimer,
    StateRecord,
    TakeProducerId,
    TimerFired,
    TimerKey,
)
from headwater.coordinator.runtime.partition_for_key import partition_for
from headwater.coordinator.transaction import add_partitions_to_txn, end_txn, init_producer_id
from headwater.coordinator.transaction.list_transactions import describe, list_matching
from headwater.coordinator.transaction.pending_markers import PendingMarkers, UnconfirmedMarkers
from headwater.coordinator.transaction.transaction_metadata import (
    OLD_CLIENTS,
    NeedsProducerId,
    TransactionMetadata,
    known_to_client,
    metadata_of,
    tombstone_of,
)
from headwater.coordinator.transaction.transaction_settings import (
    MARKER_RETRY_MS,
    TOMBSTONES_PER_APPEND,
    TransactionSettings,
)
from headwater.coordinator.transaction.transaction_states import TransactionState
from headwater.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)
from headwater.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from headwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.messages.list_transactions import ListTransactionsRequest

OFFSETS_TOPIC = "__consumer_offsets"
_EXPIRY: TimerKey = ("expiry",)

Told = ProducerIdTaken | MarkersAnswered
Event = Asked | TimerFired | Loaded | Told


@dataclass(slots=True)
class TransactionCoordinatorShard:
    """See the module. `coordinator_epoch` is the leader epoch of the shard's partition.

    `current_settings` gives what is in force: the cluster may change its mind about some of it.
    """

    current_settings: Callable[[], TransactionSettings]
    coordinator_epoch: int
    _transactions: dict[str, TransactionMetadata] = field(default_factory=dict)
    # What was decided last about an id. It is the same as the record that is about to be
    # replayed, and knows the last epoch besides, which no record tells.
    _decided: dict[str, TransactionMetadata] = field(default_factory=dict)
    _markers: PendingMarkers = field(init=False)

    def __post_init__(self) -> None:
        self._markers = PendingMarkers(self.coordinator_epoch)

    @property
    def settings(self) -> TransactionSettings:
        return self.current_settings()

    def replay(self, record: StateRecord, *, offset: int, producer_id: ProducerId | None) -> None:  # noqa: ARG002
        """Where a record stands does not matter here, only that it is the newest of its id."""
        assert isinstance(record, TransactionLogRecord), "no record of this topic"
        transactional_id, value = record.key.transactional_id, record.value
        decided = self._decided.pop(transactional_id, None)
        if value is None:
            self._transactions.pop(transactional_id, None)
            self._markers.forget(transactional_id)
            return
        if decided is None or decided.record() != record:
            decided = metadata_of(transactional_id, value)
        self._transactions[transactional_id] = decided
        self._markers.replay(decided)

    def end_transaction(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """What is written about transactions is not itself written in one."""

    def decide(self, event: Event) -> list[Effect]:
        match event:
            case Asked():
                return self._on_request(event, None, event.now_ms)
            case ProducerIdTaken():
                return self._on_producer_id(event)
            case MarkersAnswered():
                return self._on_markers_answered(event)
            case TimerFired():
                return self._on_timer(event)
            case Loaded():
                return self._on_loaded(event.now_ms)
            case _:
                assert_never(event)

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        return self._transactions.get(transactional_id)

    def _on_request(self, asked: Asked, fresh: ProducerId | None, now_ms: int) -> list[Effect]:
        request = asked.request
        if isinstance(request, InitProducerIdRequest):
            return self._on_init(asked, request, fresh, now_ms)
        if isinstance(request, AddPartitionsToTxnRequest):
            return self._on_add_partitions(asked, request)
        if isinstance(request, AddOffsetsToTxnRequest):
            return self._on_add_offsets(asked, request)
        if isinstance(request, EndTxnRequest):
            return self._on_end(asked, request, fresh, now_ms)
        if isinstance(request, DescribeTransactionsRequest):
            return self._on_describe(asked, request)
        assert isinstance(request, ListTransactionsRequest), "no request for this coordinator"
        listed = list_matching(request, self._transactions.values(), now_ms=now_ms)
        return [Reply(asked.caller, listed)]

    def _on_producer_id(self, taken: ProducerIdTaken) -> list[Effect]:
        outcome, asked = taken.outcome, taken.asked
        if not isinstance(outcome, ErrorCode):
            return self._on_request(asked, outcome, taken.now_ms)
        if isinstance(asked.request, EndTxnRequest):
            return [Reply(asked.caller, EndTxnResponse(error_code=outcome))]
        return [Reply(asked.caller, init_producer_id.refusal(asked.version, outcome))]

    def _on_init(
        self,
        asked: Asked,
        request: InitProducerIdRequest,
        fresh: ProducerId | None,
        now_ms: int,
    ) -> list[Effect]:
        code = init_producer_id.refuse_request(request, self.settings)
        if code is not None:
            return [Reply(asked.caller, init_producer_id.refusal(asked.version, code))]
        assert request.transactional_id is not None
        verdict = init_producer_id.init_producer_id(
            self._transactions.get(request.transactional_id),
            request,
            fresh,
            server_version=self.settings.server_version,
            now_ms=now_ms,
        )
        if isinstance(verdict, NeedsProducerId):
            return [TakeProducerId(asked)]
        if isinstance(verdict, ErrorCode):
            return [Reply(asked.caller, init_producer_id.refusal(asked.version, verdict))]
        if verdict.state.is_prepared:
            come_again = init_producer_id.refusal(asked.version, ErrorCode.CONCURRENT_TRANSACTIONS)
            return self._ending(verdict, Reply(asked.caller, come_again), now_ms)
        response = InitProducerIdResponse(
            producer_id=verdict.producer_id, producer_epoch=verdict.producer_epoch
        )
        return [self._append(verdict), Reply(asked.caller, response)]

    def _on_add_partitions(self, asked: Asked, request: AddPartitionsToTxnRequest) -> list[Effect]:
        """All the transactions of a request are of this shard, and share one append."""
        changed: dict[str, TransactionMetadata] = {}
        results: list[AddPartitionsToTxnResult] = []
        for transaction in request.transactions:
            current = changed.get(transaction.transactional_id) or self._transactions.get(
                transaction.transactional_id
            )
            if transaction.verify_only:
                results.append(_verified(transaction, current))
                continue
            verdict = _added(transaction, current, asked)
            if isinstance(verdict, TransactionMetadata):
                changed[transaction.transactional_id] = verdict
                verdict = ErrorCode.NONE
            code = known_to_client(
                verdict, asked.version, fenced_since=add_partitions_to_txn.FENCED_SINCE_VERSION
            )
            results.append(add_partitions_to_txn.uniform_result(transaction, code))
        response = AddPartitionsToTxnResponse(results_by_transaction=tuple(results))
        return [*self._begun(tuple(changed.values())), Reply(asked.caller, response)]

    def _on_add_offsets(self, asked: Asked, request: AddOffsetsToTxnRequest) -> list[Effect]:
        number = partition_for(request.group_id, self.settings.offsets_partition_count)
        verdict: TransactionMetadata | ErrorCode = ErrorCode.INVALID_REQUEST
        if request.transactional_id:
            verdict = add_partitions_to_txn.add(
                self._transactions.get(request.transactional_id),
                (TopicPartition(OFFSETS_TOPIC, number),),
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                client_version=OLD_CLIENTS,
                now_ms=asked.now_ms,
            )
        if isinstance(verdict, TransactionMetadata):
            reply = Reply(asked.caller, AddOffsetsToTxnResponse())
            return [*self._begun((verdict,)), reply]
        code = known_to_client(
            verdict, asked.version, fenced_since=add_partitions_to_txn.FENCED_SINCE_VERSION
        )
        return [Reply(asked.caller, AddOffsetsToTxnResponse(error_code=code))]

    def _on_end(
        self, asked: Asked, request: EndTxnRequest, fresh: ProducerId | None, now_ms: int
    ) -> list[Effect]:
        current = self._transactions.get(request.transactional_id)
        verdict: TransactionMetadata | NeedsProducerId | ErrorCode
        if asked.version >= end_txn.BUMPS_SINCE_VERSION:
            verdict = end_txn.end_with_bump(current, request, fresh, now_ms=now_ms)
        else:
            verdict = end_txn.end(current, request, now_ms=now_ms)
        if isinstance(verdict, NeedsProducerId):
            return [TakeProducerId(asked)]
        if isinstance(verdict, TransactionMetadata):
            return self._ending(verdict, Reply(asked.caller, end_txn.answer_to(verdict)), now_ms)
        if verdict is ErrorCode.NONE:
            assert current is not None
            return [Reply(asked.caller, end_txn.answer_to(current))]
        code = known_to_client(verdict, asked.version, fenced_since=end_txn.FENCED_SINCE_VERSION)
        return [Reply(asked.caller, EndTxnResponse(error_code=code))]

    def _on_describe(self, asked: Asked, request: DescribeTransactionsRequest) -> list[Effect]:
        states = []
        for transactional_id in request.transactional_ids:
            transaction = self._transactions.get(transactional_id)
            debt = self._markers.of(transactional_id)
            written_to = () if transaction is None else transaction.partitions
            states.append(
                describe(
                    transactional_id, transaction, written_to if debt is None else debt.sent_in
                )
            )
        return [Reply(asked.caller, DescribeTransactionsResponse(transaction_states=tuple(states)))]

    def _on_loaded(self, now_ms: int) -> list[Effect]:
        """What was decided before goes on, and what was open is watched over again."""
        effects: list[Effect] = [SetTimer(_EXPIRY, now_ms + self.settings.expiry_interval_ms)]
        effects += [
            _watch(transaction)
            for transaction in self._transactions.values()
            if transaction.state is TransactionState.ONGOING
        ]
        for debt in self._markers.all():
            effects += self._pay(debt, now_ms)
        return effects

    def _on_timer(self, timer: TimerFired) -> list[Effect]:
        match timer.key:
            case ("overdue", str(transactional_id)):
                return self._on_overdue(transactional_id, timer.now_ms)
            case ("markers", str(transactional_id)):
                debt = self._markers.of(transactional_id)
                return [] if debt is None else self._pay(debt, timer.now_ms)
            case _:
                return self._on_expiry(timer.now_ms)

    def _on_overdue(self, transactional_id: str, now_ms: int) -> list[Effect]:
        """A transaction that takes too long is aborted, and its producer fenced (TX-9)."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None or transaction.state is not TransactionState.ONGOING:
            return []
        # Timers go by the steady clock. One that fires before the transaction has even begun shows
        # that the wall clock was set back meanwhile; its time is over all the same.
        if transaction.start_ms <= now_ms < transaction.deadline_ms:
            return [_watch(transaction)]
        aborted = transaction.fenced(server_version=self.settings.server_version, now_ms=now_ms)
        return self._ending(aborted, None, now_ms)

    def _on_expiry(self, now_ms: int) -> list[Effect]:
        """Ids that nobody has used for long are forgotten (TX-10)."""
        effects: list[Effect] = [SetTimer(_EXPIRY, now_ms + self.settings.expiry_interval_ms)]
        oldest_ms = now_ms - self.settings.expiration_ms
        tombstones = (
            tombstone_of(transactional_id)
            for transactional_id, transaction in self._transactions.items()
            if transaction.state.is_at_rest and transaction.last_update_ms <= oldest_ms
        )
        while batch := tuple(islice(tombstones, TOMBSTONES_PER_APPEND)):
            effects.append(Append(batch))
        return effects

    def _on_markers_answered(self, answered: MarkersAnswered) -> list[Effect]:
        debt = self._markers.of(answered.transactional_id)
        if debt is None:
            return []
        debt.note(answered)
        if debt.is_paid:
            return self._pay(debt, answered.now_ms)
        if not debt.waits_for_retry:
            return []
        again_ms = answered.now_ms + debt.retry_after_ms()
        return [SetTimer(_marker_key(answered.transactional_id), again_ms)]

    def _pay(self, debt: UnconfirmedMarkers, now_ms: int) -> list[Effect]:
        """Send what has to be sent; when nothing is owed any more, the transaction is complete."""
        if debt.waits_for_retry:
            return [self._markers.send_again(debt)]
        if not debt.is_paid:
            return []
        transactional_id = debt.transaction.transactional_id
        current = self._transactions[transactional_id]
        return [
            SetTimer(_marker_key(transactional_id), now_ms + MARKER_RETRY_MS),
            self._append(current.completed(now_ms)),
        ]

    def _begun(self, changed: tuple[TransactionMetadata, ...]) -> list[Effect]:
        """Transactions with more partitions than before; one that begins is watched over."""
        if not changed:
            return []
        return [
            *(_watch(each) for each in changed if each.start_ms == each.last_update_ms),
            self._append(*changed),
        ]

    def _ending(
        self, decided: TransactionMetadata, reply: Reply | None, now_ms: int
    ) -> list[Effect]:
        """Write the decision down, answer, and send the markers, if there are any to send."""
        replies = [] if reply is None else [reply]
        retry: list[Effect] = []
        if reply is None:
            again_ms = now_ms + self.settings.abort_retry_ms
            retry.append(SetTimer(_overdue_key(decided.transactional_id), again_ms))
        if not decided.partitions:
            completed = decided.completed(now_ms)
            self._decided[decided.transactional_id] = completed
            return [*retry, Append((decided.record(), completed.record())), *replies]
        return [*retry, self._append(decided), *replies, self._markers.announce(decided)]

    def _append(self, *changed: TransactionMetadata) -> Append:
        for transaction in changed:
            self._decided[transaction.transactional_id] = transaction
        return Append(tuple(transaction.record() for transaction in changed))


def _marker_key(transactional_id: str) -> TimerKey:
    return ("markers", transactional_id)


def _overdue_key(transactional_id: str) -> TimerKey:
    return ("overdue", transactional_id)


def _watch(transaction: TransactionMetadata) -> SetTimer:
    return SetTimer(_overdue_key(transaction.transactional_id), transaction.deadline_ms)


def _added(
    transaction: AddPartitionsToTxnTransaction, current: TransactionMetadata | None, asked: Asked
) -> TransactionMetadata | ErrorCode:
    if not transaction.transactional_id:
        return ErrorCode.INVALID_REQUEST
    return add_partitions_to_txn.add(
        current,
        tuple(add_partitions_to_txn.partitions_of(transaction)),
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        client_version=add_partitions_to_txn.client_version_of(asked.version),
        now_ms=asked.now_ms,
    )


def _verified(
    transaction: AddPartitionsToTxnTransaction, current: TransactionMetadata | None
) -> AddPartitionsToTxnResult:
    code_of = add_partitions_to_txn.verify(
        current, producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch
    )
    if not transaction.transactional_id:
        return add_partitions_to_txn.uniform_result(transaction, ErrorCode.INVALID_REQUEST)
    return add_partitions_to_txn.result_of(transaction, code_of)
