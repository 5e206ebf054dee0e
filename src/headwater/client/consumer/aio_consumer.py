"""The consumer for asyncio. Create and use it on a running event loop.

    async with Consumer(bootstrap_servers="localhost:9092", group_id="drinkers") as consumer:
        consumer.subscribe(["tea"])
        while True:
            for record in await consumer.poll(1.0):
                print(record.offset, record.value)

Timeouts are in seconds.

Note: a poll marks all records of earlier polls as processed. Auto commit and rebalance listeners
run inside `poll`.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from headwater.client.argument_checks import (
    limit_ms,
    topic_partition,
    topic_partitions,
    whole_number,
)
from headwater.client.consumer.auto_offset_reset import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AutoOffsetReset,
)
from headwater.client.consumer.consumer_core import ConsumerCore
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.consumer.group.member import AssignmentChange, Rebalance
from headwater.client.consumer.group.offset_commits import CommitCallback
from headwater.client.consumer.offset_requests import OffsetAndTimestamp
from headwater.client.consumer.subscription import RebalanceListener, subscription_to
from headwater.client.errors import ClientClosed, InvalidArgument
from headwater.client.group_metadata import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetsToCommit,
    offsets_to_commit,
)
from headwater.client.settings import read_settings
from headwater.common.ids import TopicPartition
from headwater.network.system_clock import SystemClock, SystemRandom
from headwater.records.consumer_record import ConsumerRecord

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
CLOSE_TIMEOUT_S = 30.0


class Consumer:
    """Consumer for asyncio, with or without a group. For one task at a time."""

    def __init__(self, settings: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        chosen = read_settings(ConsumerSettings, settings, keywords)
        loop = asyncio.get_running_loop()
        self._clock = SystemClock()
        self._core = ConsumerCore(loop, chosen, self._clock, SystemRandom())

    async def __aenter__(self) -> Self:
        if self._core.is_closed:
            raise ClientClosed("the consumer is closed")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Iterate over records without end."""
        while True:
            for record in await self.poll(1.0):
                yield record

    # Subscription.

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: "str | re.Pattern[str] | None" = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics as a member of the group. Replaces an earlier subscription."""
        broker_matches = self._core.settings.group_protocol == "consumer"
        wanted = subscription_to(topics, pattern, broker_matches=broker_matches, listener=listener)
        if not wanted.uses_group:
            # Kafka's consumer unsubscribes here, which is a coroutine in this class.
            raise InvalidArgument("subscribe to at least one topic; use `await unsubscribe()`")
        self._core.subscribe(wanted)

    async def unsubscribe(self, timeout: float | None = None) -> None:
        """Leave the group, or drop the manual assignment."""
        deadline_ms = self._deadline_ms(timeout)
        await self._prepare_to_leave(deadline_ms)
        await self._core.unsubscribe(deadline_ms=deadline_ms)

    def subscription(self) -> frozenset[str]:
        """The subscribed topics; for a pattern, the topics that match so far."""
        return self._core.subscribed_topics()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume these partitions without group management, instead of earlier ones."""
        self._core.assign(partitions)

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._core.state.partitions)

    # Polling.

    async def poll(self, timeout: float = 0.0) -> list[ConsumerRecord]:
        """Up to `max.poll.records` records; an empty list after the timeout."""
        limit = self._core.settings.max_poll_records
        records = await self._poll(timeout, lambda: self._core.collector.records(limit)) or []
        return self._core.interceptors.on_consume(records)

    async def poll_table(
        self, timeout: float = 0.0, max_records: int | None = None, *, views: bool = False
    ) -> "pa.Table":
        """All buffered records as an Arrow table; an empty table after the timeout.

        With `views`, values have Arrow's type `binary_view` and are not copied.
        """
        collector = self._core.collector
        table = await self._poll(timeout, lambda: collector.table(max_records, views=views))
        return collector.no_rows(views=views) if table is None else table

    async def _poll(self, timeout: float, take: Callable[[], T]) -> T | None:
        deadline_ms = self._deadline_ms(timeout)
        while True:
            # Before taking records: an exception in a callback must not lose them.
            self._core.group.run_callbacks()
            taken = await self._core.step(deadline_ms, take)
            if not isinstance(taken, Rebalance):
                return taken
            try:
                await self._notify_listener(taken)
            finally:
                self._core.finish_rebalance()

    async def _notify_listener(self, rebalance: Rebalance) -> None:
        result = notify_listener(self._core.subscription.listener, rebalance)
        if isawaitable(result):
            await result

    def wakeup(self) -> None:
        """End the current poll, or the next one, with `WokenUp`."""
        self._core.wake_up()

    # Positions.

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record."""
        deadline_ms = self._deadline_ms(timeout)
        return await self._core.position(topic_partition(partition), deadline_ms=deadline_ms)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset."""
        self._core.seek(topic_partition(partition), offset)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        for partition in self._chosen(partitions):
            self._core.seek(partition, AutoOffsetReset.EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        for partition in self._chosen(partitions):
            self._core.seek(partition, AutoOffsetReset.LATEST)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until resumed; keep buffered ones."""
        self._core.pause(topic_partitions(partitions), is_paused=True)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._core.pause(topic_partitions(partitions), is_paused=False)

    def paused(self) -> frozenset[TopicPartition]:
        states = self._core.state.partitions.items()
        return frozenset(partition for partition, state in states if state.is_paused)

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Lag to the end offset of the last fetch; None before the first fetch."""
        return self._core.lag(topic_partition(partition))

    def metrics(self) -> dict[str, float]:
        """Values by the names of Kafka's consumer metrics."""
        return self._core.metrics()

    # Commits.

    async def commit(
        self, offsets: OffsetsToCommit | None = None, timeout: float | None = None
    ) -> None:
        """Commit these offsets, or all positions, and wait (commitSync).

        Pending asynchronous commits complete first, and their callbacks run.
        """
        chosen = None if offsets is None else offsets_to_commit(offsets)
        await self._core.commit(chosen, deadline_ms=self._deadline_ms(timeout))
        self._core.group.run_callbacks()

    def commit_async(
        self, offsets: OffsetsToCommit | None = None, callback: CommitCallback | None = None
    ) -> None:
        """Commit without waiting. The callback runs in a later poll, commit or close."""
        chosen = None if offsets is None else offsets_to_commit(offsets)
        self._core.start_commit(chosen, callback)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets of the group; partitions without one are left out."""
        wanted = topic_partitions(partitions)
        return await self._core.committed(wanted, deadline_ms=self._deadline_ms(timeout))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The group id, generation and member id, for `send_offsets_to_transaction`."""
        return self._core.group_metadata()

    # ListOffsets.

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return await self._edges(partitions, EARLIEST_TIMESTAMP, timeout)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The end offsets; with `read_committed`, the last stable offsets."""
        return await self._edges(partitions, LATEST_TIMESTAMP, timeout)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each timestamp; None if there is none."""
        targets = {
            topic_partition(each): whole_number(when, "a timestamp", least=0)
            for each, when in timestamps.items()
        }
        found = await self._core.listed(targets, deadline_ms=self._deadline_ms(timeout))
        return {each: where if where.offset >= 0 else None for each, where in found.items()}

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """The partitions of a topic."""
        deadline_ms = self._deadline_ms(timeout)
        view = await self._core.cluster.topic(topic, deadline_ms=deadline_ms)
        return [each.partition for each in view.partitions]

    async def _edges(
        self, partitions: Iterable[TopicPartition], which: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        targets = dict.fromkeys(topic_partitions(partitions), which)
        found = await self._core.listed(targets, deadline_ms=self._deadline_ms(timeout))
        return {each: where.offset for each, where in found.items()}

    # Closing.

    async def close(self, timeout: float | None = CLOSE_TIMEOUT_S) -> None:
        """Auto commit if enabled, leave the group and close. Idempotent."""
        if self._core.is_closed:
            return
        deadline_ms = self._deadline_ms(CLOSE_TIMEOUT_S if timeout is None else timeout)
        try:
            await self._prepare_to_leave(deadline_ms)
        finally:
            await self._core.close(deadline_ms=deadline_ms)

    async def _prepare_to_leave(self, deadline_ms: int) -> None:
        rebalance = await self._core.prepare_to_leave(deadline_ms=deadline_ms)
        self._core.group.run_callbacks()
        if rebalance is not None:
            await self._notify_listener(rebalance)

    def _deadline_ms(self, timeout: float | None) -> int:
        return self._clock.steady_ms() + limit_ms(
            timeout, self._core.settings.default_api_timeout_ms
        )

    def _chosen(self, partitions: Iterable[TopicPartition] | None) -> list[TopicPartition]:
        every = self._core.state.partitions
        return list(every) if partitions is None else topic_partitions(partitions)


def notify_listener(listener: RebalanceListener, rebalance: Rebalance) -> Any:
    """Call the method of the listener for this change; the result may be awaitable."""
    partitions = list(rebalance.partitions)
    match rebalance.change:
        case AssignmentChange.ASSIGNED:
            return listener.on_partitions_assigned(partitions)
        case AssignmentChange.REVOKED:
            return listener.on_partitions_revoked(partitions)
        case AssignmentChange.LOST:
            return listener.on_partitions_lost(partitions)
