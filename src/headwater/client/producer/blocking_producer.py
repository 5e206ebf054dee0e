"""The blocking producer: `send` returns at once, a thread sends. Thread-safe.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("tea", b"green", key=b"kind").result(10)

Note: `send` blocks while the topic is unknown or `buffer.memory` is full, for at most
`max.block.ms`. Callbacks run in the background thread; they must be short and must not wait for the
producer. A producer does not survive a fork: create it in the process that uses it.
"""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from headwater.client.errors import ClientClosed, KafkaTimeout
from headwater.client.group_metadata import (
    ConsumerGroupMetadata,
    OffsetsToCommit,
    offsets_to_commit,
)
from headwater.client.network.cluster_metadata import PartitionView
from headwater.client.network.loop_thread import LoopThread, Wakeup
from headwater.client.producer.buffer_pool import MemoryClaim
from headwater.client.producer.interceptors import Interceptors
from headwater.client.producer.partition_queues import PlacedBatch
from headwater.client.producer.pending_record import Missing, PendingRecord
from headwater.client.producer.producer_core import Headers, ProducerCore
from headwater.client.producer.producer_engine import ProducerEngine
from headwater.client.producer.producer_settings import read_producer_settings
from headwater.client.producer.record_future import RecordFuture
from headwater.client.producer.record_validation import check_record
from headwater.network.system_clock import SystemClock, SystemRandom

if TYPE_CHECKING:
    from headwater.client.producer.tables.table_future import TableFuture
    from headwater.client.producer.tables.table_input import TableLike

_NET_S: Final = 5.0
# While no broker is reachable, callers wait only briefly for the sender, until memory is full.
_CATCH_UP_S: Final = 0.02
_CLOSE_S: Final = 60.0

OnDelivery = Callable[[RecordFuture], object]


class Producer:
    """Blocking, thread-safe producer."""

    def __init__(self, settings: Mapping[str, object] | None = None, **keywords: object) -> None:
        """Settings with Kafka's names, as a mapping or as keywords with underscores."""
        self._settings = read_producer_settings(settings, keywords)
        self._interceptors = Interceptors(self._settings.interceptor_classes)
        self._clock = SystemClock()
        rng = SystemRandom()
        self._wakeup = Wakeup(self._post, self._pump)
        self._core = ProducerCore(self._settings, self._clock, rng, self._wakeup.set)
        self._take = self._core.send
        self._thread = LoopThread(f"producer {self._settings.client_id}")
        self._engine = self._thread.make(self._make_engine(rng))

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """Send a record; the future has its offset. `timestamp` is in milliseconds.

        `on_delivery` is called with the future when it is done, like `add_done_callback`.
        """
        if self._interceptors.are_any:
            topic, value, key, partition, timestamp, headers = self._interceptors.on_send(
                topic, value, key, partition, timestamp, headers
            )
        try:
            taken = self._take(topic, value, key, partition, timestamp, headers)
            if taken.__class__ is not RecordFuture:
                assert isinstance(taken, PendingRecord)
                taken = self._send_when_possible(taken)
        except (TypeError, ValueError, AttributeError):
            check_record(self._settings, topic, value, key, partition, timestamp, headers)
            raise
        assert isinstance(taken, RecordFuture)
        if on_delivery is not None:
            taken.add_done_callback(on_delivery)
        if self._interceptors.are_any:
            taken.add_done_callback(self._interceptors.on_acknowledgement)
        return taken

    def send_table(self, topic: str, table: "TableLike") -> "TableFuture":
        """Send the rows of an Arrow table or data frame, without an object per row.

        Columns by name: `value`, and optionally `key`, `partition`, `timestamp`, `headers`.
        """
        # Imported here because loading Arrow is slow.
        from headwater.client.producer.tables.table_batches import table_batches
        from headwater.client.producer.tables.table_future import TableFuture
        from headwater.client.producer.tables.table_input import as_arrow

        rows = as_arrow(table)
        self._prepare(topic, None, self._engine.deadline_ms())
        sent: list[tuple[RecordFuture, int]] = []
        for batches in table_batches(self._core, topic, rows):
            self._put(batches)
            sent += [(RecordFuture(batch, 0, -1), batch.count) for _, batch in batches]
        return TableFuture(sent)

    def send_batch(self, topic: str, partition: int, batch: bytearray) -> RecordFuture:
        """Send an encoded record batch as it is; the future is that of its first record.

        The producer owns the bytes from then on. Codec and timestamps are not changed.
        """
        from headwater.client.producer.tables.prebuilt_batch import whole_batch

        known = self._core.accumulator.topics.get(topic)
        if known is None or not 0 <= partition < known.partition_count:
            self._prepare(topic, partition, self._engine.deadline_ms())
        placed = whole_batch(self._core, topic, partition, batch)
        self._put([placed])
        return RecordFuture(placed[1], 0, -1)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all records sent so far are acknowledged or failed.

        Without a timeout, `delivery.timeout.ms` is the limit.
        """
        deadline_ms = None if timeout is None else self._engine.deadline_ms(timeout)
        self._thread.run(self._engine.flush(deadline_ms))

    def partitions_for(self, topic: str, timeout: float | None = None) -> tuple[PartitionView, ...]:
        """The partitions of a topic, with their leaders and replicas."""
        deadline_ms = self._engine.deadline_ms(timeout)
        return self._thread.run(self._engine.partitions_for(topic, deadline_ms))

    def metrics(self) -> dict[str, float]:
        """Values by the names of Kafka's producer metrics."""
        return self._engine.metrics()

    # Transactions.

    def init_transactions(self, timeout: float | None = None) -> None:
        """Initialize the transactional id and fence earlier producers. Call once, first."""
        self._thread.run(self._engine.init_transactions(self._engine.deadline_ms(timeout)))

    def begin_transaction(self) -> None:
        self._thread.run(self._engine.begin_transaction())

    def send_offsets_to_transaction(
        self,
        offsets: OffsetsToCommit,
        group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets of a consumer group as part of the transaction."""
        deadline_ms = self._engine.deadline_ms(timeout)
        who = ConsumerGroupMetadata(group_id=group) if isinstance(group, str) else group
        self._thread.run(self._engine.send_offsets(offsets_to_commit(offsets), who, deadline_ms))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Commit the transaction."""
        self._thread.run(self._engine.commit_transaction(self._engine.deadline_ms(timeout)))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction; required after an abortable error."""
        self._thread.run(self._engine.abort_transaction(self._engine.deadline_ms(timeout)))

    # Closing.

    def close(self, timeout: float | None = None) -> None:
        """Send buffered records within the timeout (60 s) and close. Idempotent."""
        limit_s = _CLOSE_S if timeout is None else timeout
        if not self._thread.is_running:
            return
        try:
            self._thread.run(
                self._engine.close(self._engine.deadline_ms(limit_s)), timeout_s=limit_s + _NET_S
            )
        except KafkaTimeout:
            # The loop does not respond; its thread is a daemon and dies with the process.
            self._core.fail(KafkaTimeout("the producer did not close before the timeout"))
        self._thread.stop(timeout_s=_NET_S)

    def __enter__(self) -> Self:
        if not self._thread.is_running:
            raise ClientClosed("the producer is closed")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After an exception, do not wait for records that may never be acknowledged.
        self.close(None if kind is None else 0)

    # Waiting.

    def _send_when_possible(self, record: PendingRecord) -> RecordFuture:
        """Wait for metadata or memory, within `max.block.ms`, and send again."""
        deadline_ms = self._engine.deadline_ms()
        try:
            while True:
                match record.missing:
                    case Missing.METADATA:
                        self._prepare(record.topic, record.partition, deadline_ms)
                    case Missing.CATCH_UP:
                        if not self._thread.is_here:
                            self._core.accumulator.wait_for_sender(_CATCH_UP_S)
                    case claim:
                        self._wait_for_memory(claim, deadline_ms)
                taken = self._core.send_again(record)
                if isinstance(taken, RecordFuture):
                    return taken
        finally:
            self._core.stop_waiting(record)

    def _prepare(self, topic: str, partition: int | None, deadline_ms: int) -> None:
        self._thread.run(self._engine.prepare(topic, partition, deadline_ms))

    def _put(self, batches: Sequence[PlacedBatch]) -> None:
        """Send whole batches as soon as there is memory for them."""
        deadline_ms = self._engine.deadline_ms()
        claim = waits = self._core.put(batches)
        try:
            while waits is not None:
                self._wait_for_memory(waits, deadline_ms)
                waits = self._core.put(batches, waits)
        finally:
            if claim is not None:
                self._core.cancel_wait(claim)

    def _wait_for_memory(self, claim: MemoryClaim, deadline_ms: int) -> None:
        self._thread.check_not_here()
        left_s = max(deadline_ms - self._clock.steady_ms(), 0) / 1000
        if self._core.failure is None and not self._core.accumulator.wait_for_memory(claim, left_s):
            raise self._core.exhausted()

    async def _make_engine(self, rng: SystemRandom) -> ProducerEngine:
        return ProducerEngine(self._thread.loop, self._core, self._clock, rng)

    def _post(self, work: Callable[[], object]) -> None:
        self._thread.post(work)

    def _pump(self) -> None:
        self._engine.pump()
