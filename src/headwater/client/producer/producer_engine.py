"""The part of the producer on the event loop: cluster, sender, transactions.

The asyncio producer awaits its methods on the same loop; the blocking producer runs them on its
background thread.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from headwater.client.argument_checks import limit_ms
from headwater.client.errors import (
    ClientClosed,
    IllegalState,
    InvalidPartitions,
    KafkaError,
    KafkaTimeout,
)
from headwater.client.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from headwater.client.network.cluster_client import ClusterClient
from headwater.client.network.cluster_metadata import PartitionView
from headwater.client.producer.buffer_pool import MemoryClaim
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.producer_core import ProducerCore
from headwater.client.producer.sender import Sender
from headwater.client.producer.transactions.idempotence import Idempotence
from headwater.client.producer.transactions.transaction_manager import TransactionManager
from headwater.client.producer.transactions.transaction_state import TransactionPhase
from headwater.common.ids import TopicPartition
from headwater.common.ports import Clock, Random

# Interval in which flush and close check again, if no event wakes them.
_CHECK_INTERVAL_MS: Final = 1_000


class ProducerEngine:
    """Create and use on the loop's thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, core: ProducerCore, clock: Clock, rng: Random
    ) -> None:
        settings = core.settings
        self._core = core
        self._clock = clock
        self._loop = loop
        self._accumulator = core.accumulator
        self.cluster = ClusterClient(
            loop, settings, clock, rng, metadata_max_idle_ms=settings.metadata_max_idle_ms
        )
        # Registered before the sender's listener, which uses what this one updates.
        self.cluster.on_metadata(self._learn)
        self.transactions: TransactionManager | None = None
        idempotence: Idempotence | None = None
        if settings.transactional_id is not None:
            idempotence = self.transactions = TransactionManager(self.cluster, settings)
        elif settings.enable_idempotence:
            idempotence = Idempotence(self.cluster, settings)
        self._idempotence = idempotence
        self.sender = Sender(self.cluster, core.accumulator, settings, idempotence)
        if idempotence is not None:
            idempotence.on_fatal = self._fatal
        if self.transactions is not None:
            self.transactions.on_abortable = self.sender.drop_unsent
            self.transactions.on_phase = self._follow_phase
            self._follow_phase()
        self._changed: asyncio.Event = asyncio.Event()
        self.sender.on_progress(self._changed.set)

    def pump(self) -> None:
        self.sender.pump()

    def deadline_ms(self, timeout_s: float | None = None) -> int:
        """The deadline after a timeout; default: `max.block.ms`."""
        return self._clock.steady_ms() + limit_ms(timeout_s, self._core.settings.max_block_ms)

    async def prepare(self, topic: str, partition: int | None, deadline_ms: int) -> None:
        """Wait for the metadata of a topic, and for a partition that may be new."""
        if partition is not None and partition < 0:
            raise InvalidPartitions(f"a partition must be 0 or more, not {partition}")
        view = await self.cluster.topic(topic, deadline_ms=deadline_ms)
        while partition is not None and partition >= len(view.partitions):
            try:
                await self.cluster.refresh(deadline_ms=deadline_ms)
            except KafkaTimeout as error:
                raise KafkaTimeout(
                    f"{topic} has {len(view.partitions)} partitions; partition {partition} does "
                    "not exist"
                ) from error
            view = self.cluster.metadata.topics[topic]
        self._learn()

    async def partitions_for(self, topic: str, deadline_ms: int) -> tuple[PartitionView, ...]:
        return (await self.cluster.topic(topic, deadline_ms=deadline_ms)).partitions

    async def flush(self, deadline_ms: int | None) -> None:
        """Wait until all records sent before are acknowledged or failed."""
        accumulator = self._accumulator
        with accumulator.lock:
            accumulator.is_flushing += 1
            batches = deque(accumulator.expire_linger_locked())

        def are_done() -> bool:
            # Each batch is checked once, except for the first pending one.
            while batches and _is_done(batches[0]):
                batches.popleft()
            return not batches

        try:
            self.pump()
            await self._until(are_done, deadline_ms, "flush")
        finally:
            accumulator.is_flushing -= 1

    async def memory(self, claim: MemoryClaim, deadline_ms: int) -> bool:
        """Wait until a memory claim is called; False after the deadline."""
        if self._core.failure is None and not claim.is_called:
            called = asyncio.Event()
            claim.on_called = called.set
            left_ms = max(deadline_ms - self._clock.steady_ms(), 0)
            with suppress(TimeoutError):
                async with asyncio.timeout(left_ms / 1000):
                    await called.wait()
        return self._core.failure is not None or claim.is_called

    async def catch_up(self, deadline_ms: int) -> None:
        """Let the loop send until half of the backlog is gone, or until the deadline."""
        self.pump()
        await asyncio.sleep(0)
        try:
            await self._until(self._accumulator.is_caught_up, deadline_ms, "sending")
        except KafkaTimeout:
            # Not an error: only memory limits the caller.
            return

    def metrics(self) -> dict[str, float]:
        counts = self.sender.metrics.as_dict()
        counts["buffer-total-bytes"] = float(self._accumulator.memory.total_bytes)
        counts["buffer-available-bytes"] = float(self._accumulator.memory.free_bytes)
        counts["waiting-threads"] = float(self._accumulator.memory.waiting_count)
        return counts

    async def close(self, deadline_ms: int) -> None:
        """Flush until the deadline, fail the rest, and close all connections."""
        try:
            if self.transactions is not None and self.transactions.is_open:
                # As in Kafka: an open transaction must not block consumers until its timeout.
                await self.abort_transaction(deadline_ms)
            await self.flush(deadline_ms)
        except KafkaError:
            # Continue closing; the remaining records fail.
            self.sender.fail_all(ClientClosed("closed before the record was acknowledged"))
        self.end()

    def end(self) -> None:
        """Close at once. Idempotent."""
        closed = ClientClosed("the producer is closed")
        self._core.fail(closed)
        self.sender.fail_all(closed)
        if self._idempotence is not None:
            self._idempotence.close()
        self.sender.stop()
        self.cluster.close()

    # Transactions.

    def transactional(self) -> TransactionManager:
        if self.transactions is None:
            raise IllegalState("transactions require transactional.id")
        return self.transactions

    async def init_transactions(self, deadline_ms: int) -> None:
        await self.transactional().init(deadline_ms)

    async def begin_transaction(self) -> None:
        await self.transactional().begin(self.deadline_ms())

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        deadline_ms: int,
    ) -> None:
        await self.transactional().send_offsets(offsets, group, deadline_ms)

    async def commit_transaction(self, deadline_ms: int) -> None:
        await self.transactional().commit(self.flush, deadline_ms)

    async def abort_transaction(self, deadline_ms: int) -> None:
        await self.transactional().abort(self.flush, deadline_ms)

    def _follow_phase(self) -> None:
        """Accept records only within a transaction without an error."""
        assert self.transactions is not None
        state = self.transactions.state
        refusal: KafkaError | None = None
        if state.phase is not TransactionPhase.IN_TRANSACTION:
            refusal = state.error or IllegalState(f"cannot send a record: {state.advice}")
        if not self.cluster.is_closed:
            self._core.failure = refusal

    def _learn(self) -> None:
        self._core.learn(self.cluster.metadata)

    def _fatal(self, error: KafkaError) -> None:
        self._core.fail(error)
        self.sender.fail_all(error)

    async def _until(self, is_met: Callable[[], bool], deadline_ms: int | None, what: str) -> None:
        while not is_met():
            left_ms = _CHECK_INTERVAL_MS
            if deadline_ms is not None:
                left_ms = min(left_ms, deadline_ms - self._clock.steady_ms())
                if left_ms <= 0:
                    raise KafkaTimeout(f"{what} did not complete before the timeout")
            if self.cluster.is_closed:
                raise ClientClosed("the producer is closed")
            self._changed.clear()
            try:
                async with asyncio.timeout(left_ms / 1000):
                    await self._changed.wait()
            except TimeoutError:
                self.pump()


def _is_done(batch: ProducerBatch) -> bool:
    if batch.parts is not None:
        return all(map(_is_done, batch.parts))
    return batch.is_done
