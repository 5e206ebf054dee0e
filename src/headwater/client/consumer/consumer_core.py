"""The consumer on one event loop, shared by the asyncio and the blocking consumer.

`step` returns what the application gets next: records, or a `Rebalance`. The caller then calls the
rebalance listener and `finish_rebalance`, and calls `step` again. In this way listeners run in the
application's thread, not on the loop of a blocking consumer.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from headwater.client.argument_checks import topic_partitions, whole_number
from headwater.client.consumer.auto_offset_reset import AutoOffsetReset
from headwater.client.consumer.consumer_metrics import ConsumerMetrics
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.consumer.fetch.fetch_collector import FetchCollector
from headwater.client.consumer.fetch.fetch_errors import FetchErrors
from headwater.client.consumer.fetch.fetcher import Fetcher
from headwater.client.consumer.fetch_positions import FetchPositions
from headwater.client.consumer.group.group_membership import Committed, GroupMembership
from headwater.client.consumer.group.member import AssignmentChange, Rebalance
from headwater.client.consumer.group.offset_commits import CommitCallback
from headwater.client.consumer.interceptors import ConsumerInterceptors
from headwater.client.consumer.offset_requests import (
    OffsetAndTimestamp,
    OffsetRequests,
)
from headwater.client.consumer.subscription import Subscription
from headwater.client.consumer.subscription_state import SubscriptionState
from headwater.client.error_messages import meaning
from headwater.client.errors import (
    ClientClosed,
    IllegalState,
    KafkaTimeout,
    WokenUp,
    error_for,
)
from headwater.client.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from headwater.client.network.cluster_client import ClusterClient
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.common.ports import Clock, Random

T = TypeVar("T")


class ConsumerCore:
    """Create and use on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: ConsumerSettings,
        clock: Clock,
        rng: Random,
    ) -> None:
        settings.check()
        self.settings = settings
        self._clock = clock
        self.cluster = ClusterClient(loop, settings, clock, rng)
        self.cluster.schedule.allows_creation = settings.allow_auto_create_topics
        self.cluster.on_metadata(self._metadata_changed)
        self.state = SubscriptionState(has_group=settings.group_id is not None)
        self._fetch_errors = FetchErrors(self.state)
        self.offsets = OffsetRequests(self.cluster, is_committed_only=settings.is_committed_only)
        self._metrics = ConsumerMetrics()
        self.interceptors = ConsumerInterceptors(settings.interceptor_classes)
        self.group = GroupMembership(
            self.cluster,
            self.state,
            self.offsets,
            settings,
            interceptors=self.interceptors,
            metrics=self._metrics,
            changed=self._notify,
        )
        self._positions = FetchPositions(
            self.cluster,
            self.state,
            self.offsets,
            settings,
            fetch_errors=self._fetch_errors,
            identity=self.group.reader,
            changed=self._changed,
        )
        self._fetcher = Fetcher(
            self.cluster,
            self.state,
            settings,
            fetch_errors=self._fetch_errors,
            metrics=self._metrics,
            arrived=self._notify,
        )
        self.collector = FetchCollector(
            self._fetcher,
            self.state,
            self._metrics,
            key_deserializer=settings.deserializer_of_keys(),
            value_deserializer=settings.deserializer_of_values(),
        )
        self._event = asyncio.Event()
        self._is_woken = False
        self._is_closed = False

    # Subscribing.

    @property
    def subscription(self) -> Subscription:
        return self.group.subscription

    def subscribed_topics(self) -> frozenset[str]:
        if self.subscription.server_pattern is not None:
            # The broker matches the pattern; topics assigned to other members are not known here.
            return frozenset(partition.topic for partition in self.state.partitions)
        return frozenset(
            self.subscription.wanted_topics(
                self.cluster.metadata, excludes_internal=self.settings.exclude_internal_topics
            )
        )

    def subscribe(self, subscription: Subscription) -> None:
        self._check_open()
        self.subscription.check_not_manual()
        self.group.subscribe(subscription)
        if subscription.pattern is None:
            self.cluster.schedule.wants_all = False
            now_ms = self._clock.steady_ms()
            self.cluster.schedule.set_topics(list(subscription.topics), now_ms)
        else:
            self.cluster.schedule.wants_all = True
        self.cluster.request_metadata_update()
        self.group.update_member()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume exactly these partitions, without group management."""
        self._check_open()
        self.subscription.check_manual()
        wanted = topic_partitions(partitions)
        self.group.subscription = Subscription(is_manual=bool(wanted))
        self.group.maybe_auto_commit(is_due=True)
        self.state.assign(wanted)
        for each in wanted:
            self.cluster.use_topic(each.topic)
        self._changed()

    async def prepare_to_leave(self, *, deadline_ms: int) -> Rebalance | None:
        """Auto commit if enabled. Return the revocation that the listener must see first.

        As in Kafka, pending asynchronous commits complete, so that closing does not lose them.
        """
        self._check_open()
        await self.group.await_pending_commits(deadline_ms=deadline_ms)
        await self.group.commit_before_revocation(
            tuple(self.state.partitions), deadline_ms=deadline_ms
        )
        owned = self.group.owned
        return Rebalance(AssignmentChange.REVOKED, owned) if owned else None

    async def unsubscribe(self, *, deadline_ms: int) -> None:
        """Leave the group and drop the assignment."""
        self._check_open()
        await self.group.leave(deadline_ms=deadline_ms)
        self.state.assign(())

    # Polling.

    async def step(self, deadline_ms: int, take: Callable[[], T]) -> T | Rebalance | None:
        """What the application gets next; None after the deadline."""
        self._check_open()
        is_first = True
        while True:
            self._event.clear()
            if self._is_woken:
                self._is_woken = False
                raise WokenUp("woken up")
            rebalance = await self.group.begin_rebalance(deadline_ms=deadline_ms)
            if rebalance is not None:
                return rebalance
            self._fetch_errors.raise_first()
            if is_first:
                self.group.maybe_auto_commit()
            if self._fetcher.data:
                taken = take()
                self._fetcher.pump()
                if taken:
                    return taken
            elif is_first:
                self._advance()
            if not is_first and self._clock.steady_ms() >= deadline_ms:
                return None
            is_first = False
            await self._wait(deadline_ms)

    def take_buffered(self, take: Callable[[], T]) -> tuple[T, bool] | None:
        """Take what `step` would return now, and whether `fetch_more` must follow.

        For another thread that holds the loop's lock: schedules nothing on the loop. Returns None
        if `step` might wait or return a rebalance.
        """
        fetcher = self._fetcher
        if self._is_closed or self._is_woken or not fetcher.data or not self._fetch_errors.is_empty:
            return None
        if not self.group.try_poll():
            return None
        before_bytes = fetcher.buffered_bytes
        taken = take()
        return taken, fetcher.buffered_bytes != before_bytes

    def fetch_more(self) -> None:
        """Fetch more, after records were taken from the buffer."""
        if not self._is_closed:
            self._fetcher.pump()

    async def _wait(self, deadline_ms: int) -> None:
        left_ms = deadline_ms - self._clock.steady_ms()
        if left_ms <= 0:
            # Let the loop run, even if the application always polls with timeout 0.
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(left_ms / 1000):
                await self._event.wait()
        except TimeoutError:
            return

    def finish_rebalance(self) -> None:
        """Continue after the listener has run."""
        if self.group.finish_rebalance():
            self._changed()

    def wake_up(self) -> None:
        """End the current step, or the next one, with `WokenUp`."""
        self.wake_next()
        self._notify()

    def wake_next(self) -> None:
        """End the next step; `wake_up` also ends the current one. For any thread."""
        self._is_woken = True

    def notify(self) -> None:
        """Make a waiting step check for records and events."""
        self._notify()

    # Positions.

    async def position(self, partition: TopicPartition, *, deadline_ms: int) -> int:
        """The offset of the next record; waits until the partition has a position."""
        while not self.state[partition].has_position:
            self._event.clear()
            self._advance()
            self._fetch_errors.raise_first()
            if self._clock.steady_ms() >= deadline_ms:
                raise KafkaTimeout(f"no position for {partition} before the timeout")
            await self._wait(deadline_ms)
        return self.state[partition].position

    def seek(self, partition: TopicPartition, where: int | AutoOffsetReset) -> None:
        if isinstance(where, AutoOffsetReset):
            self.state.reset(partition, where)
        elif (offset := whole_number(where, "an offset")) < 0:
            raise IllegalState(f"cannot seek to negative offset {offset}")
        else:
            self.state.seek(partition, offset)
        self._changed()

    def pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        for partition in partitions:
            self.state[partition].is_paused = is_paused
        self._changed()

    def lag(self, partition: TopicPartition) -> int | None:
        """Lag to the end offset of the last fetch."""
        state = self.state[partition]
        is_committed_only = self.settings.is_committed_only
        end = state.last_stable_offset if is_committed_only else state.high_watermark
        return None if end < 0 or not state.has_position else max(end - state.position, 0)

    def metrics(self) -> dict[str, float]:
        lags = [self.lag(partition) for partition in self.state.partitions]
        counts = self._metrics.as_dict()
        counts["records-lag-max"] = float(max((lag for lag in lags if lag is not None), default=0))
        counts["assigned-partitions"] = float(len(lags))
        return counts

    async def listed(
        self, timestamps: Mapping[TopicPartition, int], *, deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await self.offsets.listed(timestamps, deadline_ms=deadline_ms)

    # Commits.

    async def commit(self, offsets: Committed | None, *, deadline_ms: int) -> None:
        self._check_open()
        await self.group.commit(offsets, deadline_ms=deadline_ms)

    def start_commit(self, offsets: Committed | None, callback: CommitCallback | None) -> None:
        self._check_open()
        self.group.start_commit(offsets, callback)

    def group_metadata(self) -> ConsumerGroupMetadata:
        self._check_open()
        return self.group.metadata()

    async def committed(
        self, partitions: Iterable[TopicPartition], *, deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self._check_open()
        return await self.group.committed(partitions, deadline_ms=deadline_ms)

    # Closing.

    async def close(self, *, deadline_ms: int) -> None:
        """Leave the group and close everything before the deadline. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self.group.close(deadline_ms=deadline_ms)
        finally:
            self._positions.close()
            self._fetcher.close()
            # One loop iteration, so that the last requests are sent.
            await asyncio.sleep(0)
            self.cluster.close()
            self._notify()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    # Inside.

    def _metadata_changed(self) -> None:
        if self._is_closed:
            return
        self.group.metadata_changed()
        self._report_topic_errors()
        self._changed()

    def _report_topic_errors(self) -> None:
        """Report permanent errors of topics; a missing topic may be created later."""
        for topic in self.subscription.topics:
            view = self.cluster.metadata.topics.get(topic)
            code = ErrorCode.NONE if view is None else view.error
            if code is not ErrorCode.NONE and not code.is_retriable:
                error = error_for(code, f"topic {topic}: {meaning(code)}")
                self._fetch_errors.add(error)
                self._notify()

    def _changed(self) -> None:
        """Continue after a change that may allow fetches or position updates."""
        self._advance()
        self._notify()

    def _advance(self) -> None:
        if not self._is_closed:
            self._positions.advance()
            self._fetcher.pump()

    def _notify(self) -> None:
        self._event.set()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
