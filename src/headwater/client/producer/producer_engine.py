"""The loop's side of a producer: cluster, sender and identity, and all that waits for them.

Both faces have one. The asyncio face lives on the same loop and awaits its methods; the blocking
face runs them on its thread.
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

# How often a flush or a close looks again, should nothing tell it.
_PATIENCE_MS: Final = 1_000


class ProducerEngine:
    """Made and used on the loop's thread."""

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
        # Before the sender's listener: it looks for what this one makes known.
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
        self.sender.on_settled(self._changed.set)

    def pump(self) -> None:
        self.sender.pump()

    def deadline_ms(self, timeout_s: float | None = None) -> int:
        """So long from now on; without a number, `max.block.ms`."""
        return self._clock.steady_ms() + limit_ms(timeout_s, self._core.settings.max_block_ms)

    async def prepare(self, topic: str, partition: int | None, deadline_ms: int) -> None:
        """Wait for a topic's metadata, and for a partition of it, should it be a new one."""
        if partition is not None and partition < 0:
            raise InvalidPartitions(f"a partition is 0 or more, and not {partition}")
        view = await self.cluster.topic(topic, deadline_ms=deadline_ms)
        while partition is not None and partition >= len(view.partitions):
            try:
                await self.cluster.refresh(deadline_ms=deadline_ms)
            except KafkaTimeout as error:
                raise KafkaTimeout(
                    f"{topic} has {len(view.partitions)} partitions, and no {partition}"
                ) from error
            view = self.cluster.metadata.topics[topic]
        self._learn()

    async def partitions_for(self, topic: str, deadline_ms: int) -> tuple[PartitionView, ...]:
        return (await self.cluster.topic(topic, deadline_ms=deadline_ms)).partitions

    async def flush(self, deadline_ms: int | None) -> None:
        """Wait until all that was sent before is settled, one way or the other."""
        accumulator = self._accumulator
        with accumulator.lock:
            accumulator.is_flushing += 1
            batches = deque(accumulator.hurry_locked())

        def are_settled() -> bool:
            # Looked at once each, but for the one that all wait for.
            while batches and _is_settled(batches[0]):
                batches.popleft()
            return not batches

        try:
            self.pump()
            await self._until(are_settled, deadline_ms, "flush")
        finally:
            accumulator.is_flushing -= 1

    async def memory(self, claim: MemoryClaim, deadline_ms: int) -> bool:
        """Wait until a claim is called, on the loop; whether it was in time."""
        if self._core.refusal is None and not claim.is_called:
            called = asyncio.Event()
            claim.on_called = called.set
            left_ms = max(deadline_ms - self._clock.steady_ms(), 0)
            with suppress(TimeoutError):
                async with asyncio.timeout(left_ms / 1000):
                    await called.wait()
        return self._core.refusal is not None or claim.is_called

    async def catch_up(self, deadline_ms: int) -> None:
        """Let the loop send for a while, until half of the backlog is gone or the time is over."""
        self.pump()
        await asyncio.sleep(0)
        try:
            await self._until(self._accumulator.is_caught_up, deadline_ms, "sending")
        except KafkaTimeout:
            # No harm: memory is what really limits the caller.
            return

    def metrics(self) -> dict[str, float]:
        counts = self.sender.metrics.as_dict()
        counts["buffer-total-bytes"] = float(self._accumulator.memory.total_bytes)
        counts["buffer-available-bytes"] = float(self._accumulator.memory.free_bytes)
        counts["waiting-threads"] = float(self._accumulator.memory.waiting_count)
        return counts

    async def close(self, deadline_ms: int) -> None:
        """Settle what can be settled in time, give up the rest, and close all connections."""
        try:
            if self.transactions is not None and self.transactions.is_open:
                # Kafka does this: what was not committed shall not hold up those who read.
                await self.abort_transaction(deadline_ms)
            await self.flush(deadline_ms)
        except KafkaError:
            # Closing goes on: those records fail below.
            self.sender.abandon(ClientClosed("closed before the record was confirmed"))
        self.end()

    def end(self) -> None:
        """Close at once. May be called again."""
        closed = ClientClosed("the producer is closed")
        self._core.refuse(closed)
        self.sender.abandon(closed)
        if self._idempotence is not None:
            self._idempotence.close()
        self.sender.stop()
        self.cluster.close()

    # Transactions.

    def transactional(self) -> TransactionManager:
        if self.transactions is None:
            raise IllegalState("transactions need transactional.id")
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
        """Records are taken within a transaction only, and not after an error in it."""
        assert self.transactions is not None
        state = self.transactions.state
        refusal: KafkaError | None = None
        if state.phase is not TransactionPhase.IN_TRANSACTION:
            refusal = state.error or IllegalState(f"no record can be sent: {state.advice}")
        if not self.cluster.is_closed:
            self._core.refusal = refusal

    def _learn(self) -> None:
        self._core.learn(self.cluster.metadata)

    def _fatal(self, error: KafkaError) -> None:
        self._core.refuse(error)
        self.sender.abandon(error)

    async def _until(self, is_met: Callable[[], bool], deadline_ms: int | None, what: str) -> None:
        while not is_met():
            left_ms = _PATIENCE_MS
            if deadline_ms is not None:
                left_ms = min(left_ms, deadline_ms - self._clock.steady_ms())
                if left_ms <= 0:
                    raise KafkaTimeout(f"{what} took too long")
            if self.cluster.is_closed:
                raise ClientClosed("the producer is closed")
            self._changed.clear()
            try:
                async with asyncio.timeout(left_ms / 1000):
                    await self._changed.wait()
            except TimeoutError:
                self.pump()


def _is_settled(batch: ProducerBatch) -> bool:
    if batch.parts is not None:
        return all(map(_is_settled, batch.parts))
    return batch.is_done
