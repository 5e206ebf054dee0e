"""Transactions of a producer: the client side of the transaction protocol.

There are two versions. In the first, partitions are added to the transaction with
AddPartitionsToTxn before records are produced to them. In the second (KIP-890), enabled by the
cluster's `transaction.version`, the first Produce adds them, and every transaction ends with a new
epoch, so that late writes of an old transaction cannot get into the next one.

Note: a call that timed out has not failed. Calling it again continues where it stopped; only an
error from the coordinator decides.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from headwater.client.errors import (
    IllegalState,
    KafkaError,
    KafkaTimeout,
    NetworkException,
    error_for,
)
from headwater.client.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from headwater.client.network.cluster_client import GROUP, TRANSACTION, ClusterClient
from headwater.client.producer.partition_queues import PartitionQueue
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.producer_settings import ProducerSettings
from headwater.client.producer.transactions.idempotence import Idempotence
from headwater.client.producer.transactions.partition_sequences import GAPS
from headwater.client.producer.transactions.producer_id_and_epoch import ProducerIdAndEpoch
from headwater.client.producer.transactions.transaction_requests import (
    add_offsets,
    add_partitions,
    added_partitions_error,
    committed_offsets_error,
    end,
    init,
    offset_commit,
)
from headwater.client.producer.transactions.transaction_state import (
    TransactionPhase,
    TransactionState,
)
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from headwater.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from headwater.protocol.messages.end_txn import EndTxnResponse
from headwater.protocol.messages.init_producer_id import InitProducerIdResponse
from headwater.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from headwater.protocol.older_versions import Message

_FEATURE: Final = "transaction.version"
_SECOND: Final = 2
# The newest request versions of the first transaction version.
_FIRST_PRODUCE: Final = 11
_FIRST_ADD_PARTITIONS: Final = 3
_FIRST_OFFSET_COMMIT: Final = 4
_FIRST_END: Final = 4
_LOST_COORDINATOR: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)

R = TypeVar("R", bound=Message)


class TransactionManager(Idempotence):
    """The transactional id, its producer id and epoch, and the current transaction."""

    def __init__(self, cluster: ClusterClient, settings: ProducerSettings) -> None:
        super().__init__(cluster, settings)
        assert settings.transactional_id is not None
        self._id = settings.transactional_id
        self._is_second = False
        self._is_commit: bool | None = None
        self._wanted: dict[tuple[str, int], None] = {}
        self._is_dropping = False
        self.state = TransactionState()
        self.on_abortable: Callable[[KafkaError], None] = lambda _: None
        self.on_phase: Callable[[], None] = lambda: None

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open that could be aborted."""
        return self.state.phase in (TransactionPhase.IN_TRANSACTION, TransactionPhase.ABORTABLE)

    # Calls of the sender.

    def may_send(self, queue: PartitionQueue) -> bool:
        if not self._is_leaving(queue.batches[0]):
            return False
        if not super().may_send(queue):
            return False
        place = (queue.name, queue.partition)
        if self._is_second or place in self.state.partitions:
            return True
        self._wanted[place] = None
        return False

    def _is_leaving(self, batch: ProducerBatch) -> bool:
        """After an error only batches that were sent before are retried.

        As in Kafka: their futures complete before the abort.
        """
        if self.state.phase is TransactionPhase.ABORTABLE:
            return batch.has_sequence
        return self.state.phase in (TransactionPhase.IN_TRANSACTION, TransactionPhase.ENDING)

    def assign(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        self.state.partitions[queue.name, queue.partition] = None
        super().assign(queue, batch)

    def may_retry(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> bool:
        """Only batches behind an earlier one: a gap cannot be filled within a transaction."""
        return error.code in GAPS and not queue.sequences.is_first(batch)

    def failed(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> None:
        super().failed(queue, batch, error)
        # During an abort a lost record changes nothing.
        if not self._is_dropping and self._is_commit is not False:
            self._failed(error)

    def newest_produce(self, newest: int | None) -> int | None:
        if self._is_second:
            return newest
        return _FIRST_PRODUCE if newest is None else min(newest, _FIRST_PRODUCE)

    def ensure_producer_id(self, pump: Callable[[], None]) -> None:
        """Nothing: the coordinator assigns the id and bumps the epoch."""

    def add_partitions(self, pump: Callable[[], None]) -> None:
        """Add partitions to the transaction that batches wait for."""
        if self._wanted and self._task is None and self.fatal is None:
            self._task = self._cluster.loop.create_task(self._announce(pump))

    # Calls of the application.

    async def init(self, deadline_ms: int) -> None:
        """Initialize the transactional id: fence earlier producers, end their transaction."""
        if self.state.phase is not TransactionPhase.UNINITIALIZED:
            raise IllegalState("transactions are already initialized")
        response = await self._call_coordinator(
            init(self._id, self._settings.transaction_timeout_ms, ProducerIdAndEpoch()),
            InitProducerIdResponse,
            lambda answer: answer.error_code,
            deadline_ms,
        )
        self.identity = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        self.state.ready()
        self.on_phase()

    async def begin(self, deadline_ms: int) -> None:
        self.state.check_ready()
        node_id = await self._cluster.coordinator(TRANSACTION, self._id, deadline_ms=deadline_ms)
        versions = self._cluster.connection(node_id).versions
        if versions is not None:
            self._is_second = versions.feature(_FEATURE) >= _SECOND
        # Last, so that begin can be repeated if no coordinator was found in time.
        self.state.begin()
        self.on_phase()

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        deadline_ms: int,
    ) -> None:
        """Add offsets of a consumer group to the transaction."""
        self.state.check_sendable()
        if not offsets:
            return
        if not self._is_second:
            await self._call_coordinator(
                add_offsets(self._id, self.identity, group.group_id),
                AddOffsetsToTxnResponse,
                lambda answer: answer.error_code,
                deadline_ms,
            )
        self.state.has_offsets = True
        await self._call_coordinator(
            offset_commit(self._id, self.identity, group, offsets),
            TxnOffsetCommitResponse,
            committed_offsets_error,
            deadline_ms,
            newest=None if self._is_second else _FIRST_OFFSET_COMMIT,
            coordinates=(GROUP, group.group_id),
        )

    async def commit(self, flush: Callable[[int], Awaitable[None]], deadline_ms: int) -> None:
        """Commit the transaction, after all its records are acknowledged."""
        if not self._is_repeated(is_commit=True):
            self.state.begin_commit()
            self._is_commit = True
            self.on_phase()
        await flush(deadline_ms)
        if self.state.phase is not TransactionPhase.ENDING:
            assert self.state.error is not None
            self._is_commit = None
            raise self.state.error
        await self._end(deadline_ms, is_commit=True)

    async def abort(self, flush: Callable[[int], Awaitable[None]], deadline_ms: int) -> None:
        """Abort the transaction. Unsent records are dropped."""
        if not self._is_repeated(is_commit=False):
            self.state.begin_abort()
            self._is_commit = False
            self.on_phase()
        self._drop(error_for(ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted"))
        await flush(deadline_ms)
        await self._end(deadline_ms, is_commit=False)

    def _is_repeated(self, *, is_commit: bool) -> bool:
        """Whether this repeats an end of the transaction that timed out."""
        return self.state.phase is TransactionPhase.ENDING and self._is_commit is is_commit

    async def _end(self, deadline_ms: int, *, is_commit: bool) -> None:
        if self.state.is_started:
            response = await self._call_coordinator(
                end(self._id, self.identity, is_commit=is_commit),
                EndTxnResponse,
                lambda answer: answer.error_code,
                deadline_ms,
                newest=None if self._is_second else _FIRST_END,
            )
            if response.producer_id >= 0:
                self.identity = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        if self._gapped:
            await self._bump_epoch(deadline_ms)
        self._wanted.clear()
        self._is_commit = None
        self.state.ready()
        self.on_phase()

    async def _bump_epoch(self, deadline_ms: int) -> None:
        """Get a new epoch, because a partition has a sequence gap (KIP-360)."""
        if not self._is_second or not self.state.is_started:
            response = await self._call_coordinator(
                init(self._id, self._settings.transaction_timeout_ms, self.identity),
                InitProducerIdResponse,
                lambda answer: answer.error_code,
                deadline_ms,
            )
            self.identity = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        for queue in self._gapped:
            queue.sequences.begin(self.identity)
        self._gapped.clear()

    async def _announce(self, pump: Callable[[], None]) -> None:
        """Add partitions to the transaction, until none is new (first version only)."""
        deadline_ms = self._cluster.clock.steady_ms() + self._settings.delivery_timeout_ms
        try:
            while self._wanted:
                places = list(self._wanted)
                await self._call_coordinator(
                    add_partitions(self._id, self.identity, places),
                    AddPartitionsToTxnResponse,
                    added_partitions_error,
                    deadline_ms,
                    newest=_FIRST_ADD_PARTITIONS,
                )
                for place in places:
                    self._wanted.pop(place, None)
                    self.state.partitions[place] = None
        except KafkaTimeout as error:
            self._failed(error)
        except KafkaError:
            # The state has the error already; waiting records fail below.
            self._wanted.clear()
        finally:
            self._task = None
        pump()

    async def _call_coordinator(
        self,
        message: Message,
        response: type[R],
        error_of: Callable[[R], ErrorCode],
        deadline_ms: int,
        *,
        newest: int | None = None,
        coordinates: tuple[int, str] | None = None,
    ) -> R:
        """Call the coordinator with retries. A fatal error decides the transaction."""
        kind, key = coordinates or (TRANSACTION, self._id)
        cluster = self._cluster

        async def attempt() -> R:
            node_id = await cluster.coordinator(kind, key, deadline_ms=deadline_ms)
            try:
                answer = await cluster.call(node_id, message, response, newest=newest)
            except NetworkException:
                cluster.forget_coordinator(kind, key)
                raise
            code = error_of(answer)
            if code in _LOST_COORDINATOR:
                cluster.forget_coordinator(kind, key)
            if code is ErrorCode.INVALID_PRODUCER_EPOCH:
                # As in Kafka: older brokers report fencing with this code.
                code = ErrorCode.PRODUCER_FENCED
            if code is not ErrorCode.NONE:
                raise error_for(code)
            return answer

        try:
            return await cluster.retrying.until(deadline_ms, attempt)
        except KafkaTimeout:
            raise
        except KafkaError as error:
            self._failed(error)
            raise

    def _failed(self, error: KafkaError) -> None:
        # A rejected abort is fatal.
        self.state.failed(error, is_fatal=self._is_commit is False)
        if self.state.phase is TransactionPhase.FATAL:
            self.fail(error)
        else:
            self._drop(error)
        self.on_phase()

    def _drop(self, error: KafkaError) -> None:
        """Drop unsent records, without a further effect on the transaction."""
        self._is_dropping = True
        try:
            self.on_abortable(error)
        finally:
            self._is_dropping = False
