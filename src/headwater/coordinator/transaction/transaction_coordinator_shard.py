"""The transactions of one partition of __transaction_state.

`decide` looks up the transactional id, lets the module of the request decide, and converts the
result to effects. `replay` is the only place where a transaction changes.

Note: there is no pending state as in Kafka. A record is replayed when it is appended, so only
prepared transactions with missing markers are pending.

Note: timers are set before the append that they guard, and never cancelled. So a failed append
leaves no transaction unattended, and a timer without anything to do does nothing.
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
    Effect,
    GenerateProducerId,
    Loaded,
    MarkersAnswered,
    ProducerIdGenerated,
    Reply,
    RequestEvent,
    SetTimer,
    StateRecord,
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

ExternalEvent = ProducerIdGenerated | MarkersAnswered
Event = RequestEvent | TimerFired | Loaded | ExternalEvent


@dataclass(slots=True)
class TransactionCoordinatorShard:
    """`coordinator_epoch` is the leader epoch of the shard's partition.

    `current_settings` returns the settings in force, which may change.
    """

    current_settings: Callable[[], TransactionSettings]
    coordinator_epoch: int
    _transactions: dict[str, TransactionMetadata] = field(default_factory=dict)
    # The last decision about an id. Equal to the record about to be replayed, plus the last epoch,
    # which records do not contain.
    _decided: dict[str, TransactionMetadata] = field(default_factory=dict)
    _markers: PendingMarkers = field(init=False)

    def __post_init__(self) -> None:
        self._markers = PendingMarkers(self.coordinator_epoch)

    @property
    def settings(self) -> TransactionSettings:
        return self.current_settings()

    def replay(self, record: StateRecord, *, offset: int, producer_id: ProducerId | None) -> None:  # noqa: ARG002
        """Apply a record; its offset does not matter."""
        assert isinstance(record, TransactionLogRecord), "unexpected record type"
        transactional_id, value = record.key.transactional_id, record.value
        decided = self._decided.pop(transactional_id, None)
        if value is None:
            self._transactions.pop(transactional_id, None)
            self._markers.remove(transactional_id)
            return
        if decided is None or decided.record() != record:
            decided = metadata_of(transactional_id, value)
        self._transactions[transactional_id] = decided
        self._markers.replay(decided)

    def end_transaction(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Not used: records of this topic are not transactional."""

    def decide(self, event: Event) -> list[Effect]:
        match event:
            case RequestEvent():
                return self._on_request(event, None, event.now_ms)
            case ProducerIdGenerated():
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

    def _on_request(
        self, event: RequestEvent, new_producer_id: ProducerId | None, now_ms: int
    ) -> list[Effect]:
        request = event.request
        if isinstance(request, InitProducerIdRequest):
            return self._on_init(event, request, new_producer_id, now_ms)
        if isinstance(request, AddPartitionsToTxnRequest):
            return self._on_add_partitions(event, request)
        if isinstance(request, AddOffsetsToTxnRequest):
            return self._on_add_offsets(event, request)
        if isinstance(request, EndTxnRequest):
            return self._on_end(event, request, new_producer_id, now_ms)
        if isinstance(request, DescribeTransactionsRequest):
            return self._on_describe(event, request)
        assert isinstance(request, ListTransactionsRequest), "unexpected request"
        listed = list_matching(request, self._transactions.values(), now_ms=now_ms)
        return [Reply(event.caller, listed)]

    def _on_producer_id(self, taken: ProducerIdGenerated) -> list[Effect]:
        outcome, event = taken.outcome, taken.asked
        if not isinstance(outcome, ErrorCode):
            return self._on_request(event, outcome, taken.now_ms)
        if isinstance(event.request, EndTxnRequest):
            return [Reply(event.caller, EndTxnResponse(error_code=outcome))]
        return [Reply(event.caller, init_producer_id.error_response(event.version, outcome))]

    def _on_init(
        self,
        event: RequestEvent,
        request: InitProducerIdRequest,
        new_producer_id: ProducerId | None,
        now_ms: int,
    ) -> list[Effect]:
        code = init_producer_id.validate_request(request, self.settings)
        if code is not None:
            return [Reply(event.caller, init_producer_id.error_response(event.version, code))]
        assert request.transactional_id is not None
        result = init_producer_id.init_producer_id(
            self._transactions.get(request.transactional_id),
            request,
            new_producer_id,
            server_version=self.settings.server_version,
            now_ms=now_ms,
        )
        if isinstance(result, NeedsProducerId):
            return [GenerateProducerId(event)]
        if isinstance(result, ErrorCode):
            return [Reply(event.caller, init_producer_id.error_response(event.version, result))]
        if result.state.is_prepared:
            retry_later = init_producer_id.error_response(
                event.version, ErrorCode.CONCURRENT_TRANSACTIONS
            )
            return self._prepare(result, Reply(event.caller, retry_later), now_ms)
        response = InitProducerIdResponse(
            producer_id=result.producer_id, producer_epoch=result.producer_epoch
        )
        return [self._append(result), Reply(event.caller, response)]

    def _on_add_partitions(
        self, event: RequestEvent, request: AddPartitionsToTxnRequest
    ) -> list[Effect]:
        """All transactions of a request are of this shard and share one append."""
        changed: dict[str, TransactionMetadata] = {}
        results: list[AddPartitionsToTxnResult] = []
        for transaction in request.transactions:
            current = changed.get(transaction.transactional_id) or self._transactions.get(
                transaction.transactional_id
            )
            if transaction.verify_only:
                results.append(_verified(transaction, current))
                continue
            result = _added(transaction, current, event)
            if isinstance(result, TransactionMetadata):
                changed[transaction.transactional_id] = result
                result = ErrorCode.NONE
            code = known_to_client(
                result, event.version, fenced_since=add_partitions_to_txn.FENCED_SINCE_VERSION
            )
            results.append(add_partitions_to_txn.uniform_result(transaction, code))
        response = AddPartitionsToTxnResponse(results_by_transaction=tuple(results))
        return [*self._start(tuple(changed.values())), Reply(event.caller, response)]

    def _on_add_offsets(self, event: RequestEvent, request: AddOffsetsToTxnRequest) -> list[Effect]:
        number = partition_for(request.group_id, self.settings.offsets_partition_count)
        result: TransactionMetadata | ErrorCode = ErrorCode.INVALID_REQUEST
        if request.transactional_id:
            result = add_partitions_to_txn.add(
                self._transactions.get(request.transactional_id),
                (TopicPartition(OFFSETS_TOPIC, number),),
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                client_version=OLD_CLIENTS,
                now_ms=event.now_ms,
            )
        if isinstance(result, TransactionMetadata):
            reply = Reply(event.caller, AddOffsetsToTxnResponse())
            return [*self._start((result,)), reply]
        code = known_to_client(
            result, event.version, fenced_since=add_partitions_to_txn.FENCED_SINCE_VERSION
        )
        return [Reply(event.caller, AddOffsetsToTxnResponse(error_code=code))]

    def _on_end(
        self,
        event: RequestEvent,
        request: EndTxnRequest,
        new_producer_id: ProducerId | None,
        now_ms: int,
    ) -> list[Effect]:
        current = self._transactions.get(request.transactional_id)
        result: TransactionMetadata | NeedsProducerId | ErrorCode
        if event.version >= end_txn.BUMPS_SINCE_VERSION:
            result = end_txn.end_with_bump(current, request, new_producer_id, now_ms=now_ms)
        else:
            result = end_txn.end(current, request, now_ms=now_ms)
        if isinstance(result, NeedsProducerId):
            return [GenerateProducerId(event)]
        if isinstance(result, TransactionMetadata):
            return self._prepare(result, Reply(event.caller, end_txn.answer_to(result)), now_ms)
        if result is ErrorCode.NONE:
            assert current is not None
            return [Reply(event.caller, end_txn.answer_to(current))]
        code = known_to_client(result, event.version, fenced_since=end_txn.FENCED_SINCE_VERSION)
        return [Reply(event.caller, EndTxnResponse(error_code=code))]

    def _on_describe(
        self, event: RequestEvent, request: DescribeTransactionsRequest
    ) -> list[Effect]:
        states = []
        for transactional_id in request.transactional_ids:
            transaction = self._transactions.get(transactional_id)
            unconfirmed = self._markers.of(transactional_id)
            written_to = () if transaction is None else transaction.partitions
            states.append(
                describe(
                    transactional_id,
                    transaction,
                    written_to if unconfirmed is None else unconfirmed.sent_in,
                )
            )
        return [Reply(event.caller, DescribeTransactionsResponse(transaction_states=tuple(states)))]

    def _on_loaded(self, now_ms: int) -> list[Effect]:
        """Continue prepared transactions and watch ongoing ones."""
        effects: list[Effect] = [SetTimer(_EXPIRY, now_ms + self.settings.expiry_interval_ms)]
        effects += [
            _watch(transaction)
            for transaction in self._transactions.values()
            if transaction.state is TransactionState.ONGOING
        ]
        for unconfirmed in self._markers.all():
            effects += self._send_or_complete(unconfirmed, now_ms)
        return effects

    def _on_timer(self, timer: TimerFired) -> list[Effect]:
        match timer.key:
            case ("overdue", str(transactional_id)):
                return self._on_overdue(transactional_id, timer.now_ms)
            case ("markers", str(transactional_id)):
                unconfirmed = self._markers.of(transactional_id)
                return (
                    [] if unconfirmed is None else self._send_or_complete(unconfirmed, timer.now_ms)
                )
            case _:
                return self._on_expiry(timer.now_ms)

    def _on_overdue(self, transactional_id: str, now_ms: int) -> list[Effect]:
        """Abort a transaction that timed out, and fence its producer (TX-9)."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None or transaction.state is not TransactionState.ONGOING:
            return []
        # Timers use the steady clock. One that fires before the start of the transaction means that
        # the wall clock was set back; the timeout has passed all the same.
        if transaction.start_ms <= now_ms < transaction.deadline_ms:
            return [_watch(transaction)]
        aborted = transaction.fenced(server_version=self.settings.server_version, now_ms=now_ms)
        return self._prepare(aborted, None, now_ms)

    def _on_expiry(self, now_ms: int) -> list[Effect]:
        """Remove ids that have not been used for long (TX-10)."""
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
        unconfirmed = self._markers.of(answered.transactional_id)
        if unconfirmed is None:
            return []
        unconfirmed.add(answered)
        if unconfirmed.is_confirmed:
            return self._send_or_complete(unconfirmed, answered.now_ms)
        if not unconfirmed.waits_for_retry:
            return []
        again_ms = answered.now_ms + unconfirmed.retry_after_ms()
        return [SetTimer(_marker_key(answered.transactional_id), again_ms)]

    def _send_or_complete(self, unconfirmed: UnconfirmedMarkers, now_ms: int) -> list[Effect]:
        """Send unsent markers; if all are confirmed, complete the transaction."""
        if unconfirmed.waits_for_retry:
            return [self._markers.resend(unconfirmed)]
        if not unconfirmed.is_confirmed:
            return []
        transactional_id = unconfirmed.transaction.transactional_id
        current = self._transactions[transactional_id]
        return [
            SetTimer(_marker_key(transactional_id), now_ms + MARKER_RETRY_MS),
            self._append(current.completed(now_ms)),
        ]

    def _start(self, changed: tuple[TransactionMetadata, ...]) -> list[Effect]:
        """Append transactions with new partitions; set timeouts of new transactions."""
        if not changed:
            return []
        return [
            *(_watch(each) for each in changed if each.start_ms == each.last_update_ms),
            self._append(*changed),
        ]

    def _prepare(
        self, decided: TransactionMetadata, reply: Reply | None, now_ms: int
    ) -> list[Effect]:
        """Append the prepared transaction, reply, and send its markers."""
        replies = [] if reply is None else [reply]
        retry: list[Effect] = []
        if reply is None:
            again_ms = now_ms + self.settings.abort_retry_ms
            retry.append(SetTimer(_overdue_key(decided.transactional_id), again_ms))
        if not decided.partitions:
            completed = decided.completed(now_ms)
            self._decided[decided.transactional_id] = completed
            return [*retry, Append((decided.record(), completed.record())), *replies]
        return [*retry, self._append(decided), *replies, self._markers.add(decided)]

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
    transaction: AddPartitionsToTxnTransaction,
    current: TransactionMetadata | None,
    event: RequestEvent,
) -> TransactionMetadata | ErrorCode:
    if not transaction.transactional_id:
        return ErrorCode.INVALID_REQUEST
    return add_partitions_to_txn.add(
        current,
        tuple(add_partitions_to_txn.partitions_of(transaction)),
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        client_version=add_partitions_to_txn.client_version_of(event.version),
        now_ms=event.now_ms,
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
