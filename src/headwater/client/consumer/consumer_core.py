"""A consumer, on one loop: what the asyncio face and the blocking face share.

`step` is the heart: it gives what the application shall have next, either something it must hear of
(`Rebalance`) or whatever was fetched. Who calls it tells the listener, says `finish_rebalance`, and
comes again. So listeners run where the application is, and not on the loop of a blocking consumer.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from headwater.client.argument_checks import places, whole_number
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
    """For the loop's thread, where it must also be made."""

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
        self._complaints = FetchErrors(self.state)
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
            changed=self._tell,
        )
        self._positions = FetchPositions(
            self.cluster,
            self.state,
            self.offsets,
            settings,
            complaints=self._complaints,
            identity=self.group.reader,
            changed=self._changed,
        )
        self._fetcher = Fetcher(
            self.cluster,
            self.state,
            settings,
            complaints=self._complaints,
            metrics=self._metrics,
            arrived=self._tell,
        )
        self.collecting = FetchCollector(
            self._fetcher,
            self.state,
            self._metrics,
            key_deserializer=settings.deserializer_of_keys(),
            value_deserializer=settings.deserializer_of_values(),
        )
        self._news = asyncio.Event()
        self._is_woken = False
        self._is_closed = False

    # Subscribing.

    @property
    def subscription(self) -> Subscription:
        return self.group.subscription

    def subscribed_topics(self) -> frozenset[str]:
        if self.subscription.server_pattern is not None:
            # What else the broker has found, it has given to other members.
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
        self.cluster.want_refresh()
        self.group.tell_member()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these, without the group's help."""
        self._check_open()
        self.subscription.check_manual()
        wanted = places(partitions)
        self.group.subscription = Subscription(is_manual=bool(wanted))
        self.group.commit_now_and_then(is_due=True)
        self.state.assign(wanted)
        for each in wanted:
            self.cluster.use_topic(each.topic)
        self._changed()

    async def prepare_to_leave(self, *, deadline_ms: int) -> Rebalance | None:
        """Commit if that is automatic. Gives what the listener must hear of before we leave.

        Kafka does this: commits that nobody waits for are not lost by closing right after them.
        """
        self._check_open()
        await self.group.settle_commits(deadline_ms=deadline_ms)
        await self.group.commit_before_losing(tuple(self.state.partitions), deadline_ms=deadline_ms)
        owned = self.group.owned
        return Rebalance(AssignmentChange.REVOKED, owned) if owned else None

    async def unsubscribe(self, *, deadline_ms: int) -> None:
        """Leave the group, and read nothing."""
        self._check_open()
        await self.group.leave(deadline_ms=deadline_ms)
        self.state.assign(())

    # Polling.

    async def step(self, deadline_ms: int, take: Callable[[], T]) -> T | Rebalance | None:
        """What the application gets next; None if there is nothing before the deadline."""
        self._check_open()
        is_first = True
        while True:
            self._news.clear()
            if self._is_woken:
                self._is_woken = False
                raise WokenUp("woken up")
            rebalance = await self.group.begin_rebalance(deadline_ms=deadline_ms)
            if rebalance is not None:
                return rebalance
            self._complaints.raise_first()
            if is_first:
                self.group.commit_now_and_then()
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

    def take_in_passing(self, take: Callable[[], T]) -> tuple[T, bool] | None:
        """What `step` would give without doing anything else, and whether `go_on` must follow.

        For a thread that visits the loop: nothing here is scheduled on it. None where `step` might
        wait or has something else to tell.
        """
        fetcher = self._fetcher
        if self._is_closed or self._is_woken or not fetcher.data or not self._complaints.is_empty:
            return None
        if not self.group.polled_in_passing():
            return None
        before_bytes = fetcher.buffered_bytes
        taken = take()
        return taken, fetcher.buffered_bytes != before_bytes

    def go_on(self) -> None:
        """There is room for more."""
        if not self._is_closed:
            self._fetcher.pump()

    async def _wait(self, deadline_ms: int) -> None:
        left_ms = deadline_ms - self._clock.steady_ms()
        if left_ms <= 0:
            # Without this a caller that only ever polls with 0 would never let the loop work.
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(left_ms / 1000):
                await self._news.wait()
        except TimeoutError:
            return

    def finish_rebalance(self) -> None:
        """The listener has heard of it."""
        if self.group.finish_rebalance():
            self._changed()

    def wake_up(self) -> None:
        """End a poll that waits, or the next one."""
        self.wake_next()
        self._tell()

    def wake_next(self) -> None:
        """End the next step; `wake_up` ends the present one as well. For any thread."""
        self._is_woken = True

    def look_up(self) -> None:
        """Have a step that waits look at what there is."""
        self._tell()

    # Positions.

    async def position(self, partition: TopicPartition, *, deadline_ms: int) -> int:
        """The next offset for the application; waits until there is one."""
        while not self.state[partition].has_position:
            self._news.clear()
            self._advance()
            self._complaints.raise_first()
            if self._clock.steady_ms() >= deadline_ms:
                raise KafkaTimeout(f"{partition} got no position in time")
            await self._wait(deadline_ms)
        return self.state[partition].position

    def seek(self, partition: TopicPartition, where: int | AutoOffsetReset) -> None:
        if isinstance(where, AutoOffsetReset):
            self.state.reset(partition, where)
        elif (offset := whole_number(where, "an offset")) < 0:
            raise IllegalState(f"{offset} is no offset to seek to")
        else:
            self.state.seek(partition, offset)
        self._changed()

    def pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        for partition in partitions:
            self.state[partition].is_paused = is_paused
        self._changed()

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets lie before the end that was seen last."""
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

    # The end.

    async def close(self, *, deadline_ms: int) -> None:
        """Leave the group and close everything, within the time. May be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self.group.close(deadline_ms=deadline_ms)
        finally:
            self._positions.close()
            self._fetcher.close()
            # One turn, in which the last words leave.
            await asyncio.sleep(0)
            self.cluster.close()
            self._tell()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    # Inside.

    def _metadata_changed(self) -> None:
        if self._is_closed:
            return
        self.group.metadata_changed()
        self._complain_of_topics()
        self._changed()

    def _complain_of_topics(self) -> None:
        """What can never be read is told; that a topic does not exist yet is none of that."""
        for topic in self.subscription.topics:
            view = self.cluster.metadata.topics.get(topic)
            code = ErrorCode.NONE if view is None else view.error
            if code is not ErrorCode.NONE and not code.is_retriable:
                error = error_for(code, f"topic {topic}: {meaning(code)}")
                self._complaints.add(error)
                self._tell()

    def _changed(self) -> None:
        """Something may be possible now that was not before."""
        self._advance()
        self._tell()

    def _advance(self) -> None:
        if not self._is_closed:
            self._positions.advance()
            self._fetcher.pump()

    def _tell(self) -> None:
        self._news.set()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
