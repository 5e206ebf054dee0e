"""The blocking consumer: the asyncio one on a background thread.

    with Consumer(bootstrap_servers="localhost:9092", group_id="drinkers") as consumer:
        consumer.subscribe(["tea"])
        while True:
            for record in consumer.poll(1.0):
                print(record.offset, record.value)

Heartbeats and fetches continue in the background between polls. A poll that finds buffered records
takes them without waking the background thread. As with Kafka's consumer, only one thread at a
time may use it, except for `wakeup`. Rebalance listeners and commit callbacks run in the thread
that polls.
"""

import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from headwater.client.argument_checks import (
    limit_ms,
    topic_partition,
    topic_partitions,
    whole_number,
)
from headwater.client.consumer.aio_consumer import (
    CLOSE_TIMEOUT_S,
    notify_listener,
)
from headwater.client.consumer.auto_offset_reset import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AutoOffsetReset,
)
from headwater.client.consumer.consumer_core import ConsumerCore
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.consumer.fetch.fetch_collector import unpack
from headwater.client.consumer.group.member import Rebalance
from headwater.client.consumer.group.offset_commits import CommitCallback
from headwater.client.consumer.offset_requests import OffsetAndTimestamp
from headwater.client.consumer.subscription import RebalanceListener, subscription_to
from headwater.client.errors import ClientClosed
from headwater.client.group_metadata import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetsToCommit,
    offsets_to_commit,
)
from headwater.client.network.loop_thread import LoopThread
from headwater.client.settings import read_settings
from headwater.common.ids import TopicPartition
from headwater.network.system_clock import SystemClock, SystemRandom
from headwater.records.consumer_record import ConsumerRecord

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
# A call has its own deadline; this much later the background thread is considered dead.
_SLACK_S: Final = 30.0
_STOP_S: Final = 5.0


class Consumer:
    """Blocking consumer, with or without a group."""

    def __init__(self, settings: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        chosen = read_settings(ConsumerSettings, settings, keywords)
        chosen.check()
        self._settings = chosen
        self._clock = SystemClock()
        self._thread = LoopThread("headwater-consumer")
        self._is_closed = False
        self._core = self._thread.make(self._make())

    async def _make(self) -> ConsumerCore:
        return ConsumerCore(self._thread.loop, self._settings, self._clock, SystemRandom())

    def __enter__(self) -> Self:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Iterate over records without end."""
        while True:
            yield from self.poll(1.0)

    # Subscription.

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: "str | re.Pattern[str] | None" = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics as a member of the group. Replaces an earlier subscription.

        An empty list unsubscribes, as in Kafka.
        """
        broker_matches = self._settings.group_protocol == "consumer"
        wanted = subscription_to(topics, pattern, broker_matches=broker_matches, listener=listener)
        if wanted.uses_group:
            self._call(lambda: self._core.subscribe(wanted))
        else:
            self.unsubscribe()

    def unsubscribe(self, timeout: float | None = None) -> None:
        """Leave the group, or drop the manual assignment."""
        deadline_ms = self._deadline_ms(timeout)
        self._prepare_to_leave(deadline_ms, timeout)
        self._run(self._core.unsubscribe(deadline_ms=deadline_ms), timeout)

    def subscription(self) -> frozenset[str]:
        """The subscribed topics; for a pattern, the topics that match so far."""
        return self._call(self._core.subscribed_topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume these partitions without group management, instead of earlier ones."""
        wanted = topic_partitions(partitions)
        self._call(lambda: self._core.assign(wanted))

    def assignment(self) -> frozenset[TopicPartition]:
        return self._call(lambda: frozenset(self._core.state.partitions))

    # Polling.

    def poll(self, timeout: float = 0.0) -> list[ConsumerRecord]:
        """Up to `max.poll.records` records; an empty list after the timeout."""
        limit = self._settings.max_poll_records
        records = self._poll(timeout, lambda: self._core.collector.records(limit)) or []
        return self._core.interceptors.on_consume(records)

    def poll_table(
        self, timeout: float = 0.0, max_records: int | None = None, *, views: bool = False
    ) -> "pa.Table":
        """All buffered records as an Arrow table; an empty table after the timeout.

        With `views`, values have Arrow's type `binary_view` and are not copied.
        """
        collector = self._core.collector
        if max_records is not None:
            table = self._poll(timeout, lambda: collector.table(max_records, views=views))
            return collector.no_rows(views=views) if table is None else table
        deadline_ms = self._deadline_ms(timeout)
        while True:
            left_s = max(deadline_ms - self._clock.steady_ms(), 0) / 1000
            taken = self._poll(left_s, collector.whole)
            if taken is None:
                return collector.no_rows(views=views)
            unpacked = unpack(taken, views=views)
            if unpacked.error is not None:
                self._call(partial(collector.restore, unpacked.unread))
                if not unpacked.rows:
                    raise unpacked.error
            if unpacked.rows:
                return collector.table_of(unpacked.rows, views=views)
            # Only control batches or aborted transactions; poll again.

    def _poll(self, timeout: float, take: Callable[[], T]) -> T | None:
        deadline_ms = self._deadline_ms(timeout)
        while True:
            # Before taking records: an exception in a callback must not lose them.
            self._core.group.run_callbacks()
            at_once = self._take_buffered(take)
            if at_once:
                return at_once
            taken = self._run(self._core.step(deadline_ms, take), timeout)
            if not isinstance(taken, Rebalance):
                return taken
            try:
                notify_listener(self._core.subscription.listener, taken)
            finally:
                self._call(self._core.finish_rebalance)

    def _take_buffered(self, take: Callable[[], T]) -> T | None:
        """Take buffered records without waking the background thread; None if unsure."""
        if self._is_closed:
            return None
        found = self._thread.visit(lambda: self._core.take_buffered(take))
        if found is None:
            return None
        taken, has_room = found
        if has_room:
            self._thread.post(self._core.fetch_more)
        return taken

    def wakeup(self) -> None:
        """End the current or next poll with `WokenUp`. Any thread may call it."""
        if self._is_closed:
            # A signal handler cannot know whether the consumer is still open.
            return
        # Set here too: a poll that starts right after this may not go through the loop's thread.
        self._core.wake_next()
        self._thread.post(self._core.notify)

    # Positions.

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record."""
        deadline_ms = self._deadline_ms(timeout)
        work = self._core.position(topic_partition(partition), deadline_ms=deadline_ms)
        return self._run(work, timeout)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset."""
        self._call(lambda: self._core.seek(topic_partition(partition), offset))

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        self._seek_all(partitions, AutoOffsetReset.EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        self._seek_all(partitions, AutoOffsetReset.LATEST)

    def _seek_all(
        self, partitions: Iterable[TopicPartition] | None, where: AutoOffsetReset
    ) -> None:
        chosen = self.assignment() if partitions is None else partitions
        wanted = sorted(topic_partitions(chosen))

        def seek() -> None:
            for partition in wanted:
                self._core.seek(partition, where)

        self._call(seek)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until resumed; keep buffered ones."""
        chosen = topic_partitions(partitions)
        self._call(lambda: self._core.pause(chosen, is_paused=True))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        chosen = topic_partitions(partitions)
        self._call(lambda: self._core.pause(chosen, is_paused=False))

    def paused(self) -> frozenset[TopicPartition]:
        return self._call(
            lambda: frozenset(
                partition
                for partition, state in self._core.state.partitions.items()
                if state.is_paused
            )
        )

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Lag to the end offset of the last fetch; None before the first fetch."""
        return self._call(lambda: self._core.lag(topic_partition(partition)))

    def metrics(self) -> dict[str, float]:
        """Values by the names of Kafka's consumer metrics."""
        return self._call(self._core.metrics)

    # Commits.

    def commit(self, offsets: OffsetsToCommit | None = None, timeout: float | None = None) -> None:
        """Commit these offsets, or all positions, and wait (commitSync).

        Pending asynchronous commits complete first, and their callbacks run.
        """
        chosen = None if offsets is None else offsets_to_commit(offsets)
        self._run(self._core.commit(chosen, deadline_ms=self._deadline_ms(timeout)), timeout)
        self._core.group.run_callbacks()

    def commit_async(
        self, offsets: OffsetsToCommit | None = None, callback: CommitCallback | None = None
    ) -> None:
        """Commit without waiting. The callback runs in a later poll, commit or close."""
        chosen = None if offsets is None else offsets_to_commit(offsets)
        self._call(lambda: self._core.start_commit(chosen, callback))

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets of the group; partitions without one are left out."""
        wanted = topic_partitions(partitions)
        work = self._core.committed(wanted, deadline_ms=self._deadline_ms(timeout))
        return self._run(work, timeout)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The group id, generation and member id, for `send_offsets_to_transaction`."""
        return self._call(self._core.group_metadata)

    # ListOffsets.

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._edges(partitions, EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The end offsets; with `read_committed`, the last stable offsets."""
        return self._edges(partitions, LATEST_TIMESTAMP, timeout)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each timestamp; None if there is none."""
        targets = {
            topic_partition(each): whole_number(when, "a timestamp", least=0)
            for each, when in timestamps.items()
        }
        work = self._core.listed(targets, deadline_ms=self._deadline_ms(timeout))
        found = self._run(work, timeout)
        return {each: where if where.offset >= 0 else None for each, where in found.items()}

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """The partitions of a topic."""
        deadline_ms = self._deadline_ms(timeout)
        view = self._run(self._core.cluster.topic(topic, deadline_ms=deadline_ms), timeout)
        return [each.partition for each in view.partitions]

    def _edges(
        self, partitions: Iterable[TopicPartition], which: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        targets = dict.fromkeys(topic_partitions(partitions), which)
        work = self._core.listed(targets, deadline_ms=self._deadline_ms(timeout))
        return {each: where.offset for each, where in self._run(work, timeout).items()}

    # Closing.

    def close(self, timeout: float | None = CLOSE_TIMEOUT_S) -> None:
        """Auto commit if enabled, leave the group and close. Idempotent."""
        if self._is_closed:
            return
        timeout = CLOSE_TIMEOUT_S if timeout is None else timeout
        deadline_ms = self._deadline_ms(timeout)
        try:
            self._prepare_to_leave(deadline_ms, timeout)
        except ClientClosed:
            # A forked process has no background thread; there is nothing to close.
            self._is_closed = True
            return
        finally:
            if not self._is_closed:
                self._is_closed = True
                self._end(deadline_ms, timeout)

    def _prepare_to_leave(self, deadline_ms: int, timeout: float | None) -> None:
        rebalance = self._run(self._core.prepare_to_leave(deadline_ms=deadline_ms), timeout)
        self._core.group.run_callbacks()
        if rebalance is not None:
            notify_listener(self._core.subscription.listener, rebalance)

    def _end(self, deadline_ms: int, timeout: float) -> None:
        try:
            self._thread.run(self._core.close(deadline_ms=deadline_ms), timeout_s=timeout + _STOP_S)
        finally:
            self._thread.stop(timeout_s=_STOP_S)

    def _deadline_ms(self, timeout: float | None) -> int:
        return self._clock.steady_ms() + limit_ms(timeout, self._settings.default_api_timeout_ms)

    def _run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        if self._is_closed:
            work.close()
            raise ClientClosed("the consumer is closed")
        limit_s = self._settings.default_api_timeout_ms / 1000
        # A poll may commit and look up offsets on the way, each within the default timeout.
        return self._thread.run(work, timeout_s=max(timeout or 0, limit_s) + _SLACK_S)

    def _call(self, work: Callable[[], T]) -> T:
        """Run a short function on the loop's thread."""

        async def call() -> T:
            return work()

        return self._run(call())
