"""The producer for asyncio, on the caller's event loop.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        where = await (await producer.send("tea", b"green", key=b"kind"))

Note: the `await` on `send` is for buffering the record, not for its delivery. It usually returns
without suspending; it waits for metadata of a new topic, for free `buffer.memory`, or to let the
loop run. Await the returned future for the delivery.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from headwater.client.errors import ClientClosed
from headwater.client.group_metadata import (
    ConsumerGroupMetadata,
    OffsetsToCommit,
    offsets_to_commit,
)
from headwater.client.network.cluster_metadata import PartitionView
from headwater.client.network.loop_thread import Wakeup
from headwater.client.producer.buffer_pool import MemoryClaim
from headwater.client.producer.interceptors import Interceptors
from headwater.client.producer.partition_queues import PlacedBatch
from headwater.client.producer.pending_record import Missing, PendingRecord
from headwater.client.producer.producer_core import Headers, ProducerCore
from headwater.client.producer.producer_engine import ProducerEngine
from headwater.client.producer.producer_settings import read_producer_settings
from headwater.client.producer.record_future import RecordFuture, RecordMetadata
from headwater.client.producer.record_validation import check_record
from headwater.network.system_clock import SystemClock, SystemRandom

if TYPE_CHECKING:
    from headwater.client.producer.tables.table_future import TableFuture
    from headwater.client.producer.tables.table_input import TableLike

_CLOSE_S: Final = 60.0
_CATCH_UP_MS: Final = 20

OnDelivery = Callable[[RecordFuture], object]


class Producer:
    """Producer for asyncio. Belongs to the loop of its first call."""

    def __init__(self, settings: Mapping[str, object] | None = None, **keywords: object) -> None:
        """Settings with Kafka's names, as a mapping or as keywords with underscores."""
        self._settings = read_producer_settings(settings, keywords)
        self._interceptors = Interceptors(self._settings.interceptor_classes)
        self._clock = SystemClock()
        self._rng = SystemRandom()
        self._wakeup = Wakeup(self._soon, self._pump)
        self._core = ProducerCore(self._settings, self._clock, self._rng, self._wakeup.set)
        self._take = self._core.send
        self._started: ProducerEngine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """Send a record; the future has its offset. `timestamp` is in milliseconds."""
        if self._interceptors.are_any:
            topic, value, key, partition, timestamp, headers = self._interceptors.on_send(
                topic, value, key, partition, timestamp, headers
            )
        try:
            taken = self._take(topic, value, key, partition, timestamp, headers)
            if taken.__class__ is not RecordFuture:
                assert isinstance(taken, PendingRecord)
                taken = await self._send_when_possible(taken)
        except (TypeError, ValueError, AttributeError):
            check_record(self._settings, topic, value, key, partition, timestamp, headers)
            raise
        assert isinstance(taken, RecordFuture)
        if on_delivery is not None:
            taken.add_done_callback(on_delivery)
        if self._interceptors.are_any:
            taken.add_done_callback(self._interceptors.on_acknowledgement)
        return taken

    async def send_and_wait(self, topic: str, value: Any = None, **rest: Any) -> RecordMetadata:
        """Send a record and wait for the acknowledgement."""
        return await (await self.send(topic, value, **rest))

    async def send_table(self, topic: str, table: "TableLike") -> "TableFuture":
        """Send the rows of an Arrow table or data frame, without an object per row.

        Columns by name: `value`, and optionally `key`, `partition`, `timestamp`, `headers`.
        """
        from headwater.client.producer.tables.table_batches import table_batches
        from headwater.client.producer.tables.table_future import TableFuture
        from headwater.client.producer.tables.table_input import as_arrow

        rows = as_arrow(table)
        engine = self._engine()
        deadline_ms = engine.deadline_ms()
        await engine.prepare(topic, None, deadline_ms)
        sent: list[tuple[RecordFuture, int]] = []
        for batches in table_batches(self._core, topic, rows):
            await self._put(batches)
            sent += [(RecordFuture(batch, 0, -1), batch.count) for _, batch in batches]
        return TableFuture(sent)

    async def send_batch(self, topic: str, partition: int, batch: bytearray) -> RecordFuture:
        """Send an encoded record batch as it is; the future is that of its first record.

        The producer owns the bytes from then on. Codec and timestamps are not changed.
        """
        from headwater.client.producer.tables.prebuilt_batch import whole_batch

        engine = self._engine()
        known = self._core.accumulator.topics.get(topic)
        if known is None or not 0 <= partition < known.partition_count:
            await engine.prepare(topic, partition, engine.deadline_ms())
        placed = whole_batch(self._core, topic, partition, batch)
        await self._put([placed])
        return RecordFuture(placed[1], 0, -1)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until all records sent so far are acknowledged or failed.

        Raises `KafkaTimeout`.
        """
        engine = self._engine()
        await engine.flush(None if timeout is None else engine.deadline_ms(timeout))

    async def partitions_for(
        self, topic: str, timeout: float | None = None
    ) -> tuple[PartitionView, ...]:
        """The partitions of a topic, with their leaders and replicas."""
        engine = self._engine()
        return await engine.partitions_for(topic, engine.deadline_ms(timeout))

    def metrics(self) -> dict[str, float]:
        """Values by the names of Kafka's producer metrics."""
        return self._engine().metrics()

    # Transactions.

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Initialize the transactional id and fence earlier producers. Call once, first."""
        engine = self._engine()
        await engine.init_transactions(engine.deadline_ms(timeout))

    async def begin_transaction(self) -> None:
        await self._engine().begin_transaction()

    async def send_offsets_to_transaction(
        self,
        offsets: OffsetsToCommit,
        group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets of a consumer group as part of the transaction."""
        engine = self._engine()
        who = ConsumerGroupMetadata(group_id=group) if isinstance(group, str) else group
        await engine.send_offsets(offsets_to_commit(offsets), who, engine.deadline_ms(timeout))

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Commit the transaction."""
        engine = self._engine()
        await engine.commit_transaction(engine.deadline_ms(timeout))

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction; required after an abortable error."""
        engine = self._engine()
        await engine.abort_transaction(engine.deadline_ms(timeout))

    # Closing.

    async def close(self, timeout: float | None = None) -> None:
        """Send buffered records within the timeout (60 s) and close. Idempotent."""
        engine = self._started
        if engine is not None and not engine.cluster.is_closed:
            await engine.close(engine.deadline_ms(_CLOSE_S if timeout is None else timeout))

    async def __aenter__(self) -> Self:
        if self._engine().cluster.is_closed:
            raise ClientClosed("the producer is closed")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(None if kind is None else 0)

    # Waiting.

    async def _send_when_possible(self, record: PendingRecord) -> RecordFuture:
        """Wait for metadata or memory, within `max.block.ms`, and send again."""
        engine = self._engine()
        deadline_ms = engine.deadline_ms()
        try:
            while True:
                match record.missing:
                    case Missing.METADATA:
                        await engine.prepare(record.topic, record.partition, deadline_ms)
                    case Missing.CATCH_UP:
                        await engine.catch_up(self._clock.steady_ms() + _CATCH_UP_MS)
                    case claim:
                        await self._wait_for_memory(claim, deadline_ms)
                taken = self._core.send_again(record)
                if isinstance(taken, RecordFuture):
                    return taken
        finally:
            self._core.stop_waiting(record)

    async def _put(self, batches: Sequence[PlacedBatch]) -> None:
        """Send whole batches as soon as there is memory for them."""
        deadline_ms = self._engine().deadline_ms()
        claim = waits = self._core.put(batches)
        try:
            while waits is not None:
                await self._wait_for_memory(waits, deadline_ms)
                waits = self._core.put(batches, waits)
        finally:
            if claim is not None:
                self._core.cancel_wait(claim)

    async def _wait_for_memory(self, claim: MemoryClaim, deadline_ms: int) -> None:
        if not await self._engine().memory(claim, deadline_ms):
            raise self._core.exhausted()

    def _engine(self) -> ProducerEngine:
        """Created on first use, because only then the loop is known."""
        if self._started is None:
            self._loop = asyncio.get_running_loop()
            self._started = ProducerEngine(self._loop, self._core, self._clock, self._rng)
        return self._started

    def _soon(self, work: Callable[[], object]) -> None:
        assert self._loop is not None
        self._loop.call_soon(work)

    def _pump(self) -> None:
        self._engine().pump()
