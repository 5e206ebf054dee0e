"""A consumer, on one loop: what the asyncio face and the blocking face share.

`step` is the heart: it gives what the application shall have next, either something it must hear of
(`Rebalance`) or whatever was fetched. Who calls it tells the listener, says `finish_rebalance`, and
comes again. So listeners run where the application is, and not on the loop of a blocking consumer.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from headwater.client.cluster_client import ClusterClient
from headwater.client.consumer.classic_member import ClassicMember
from headwater.client.consumer.collecting import Collecting
from headwater.client.consumer.commits import CommitCallback, Commits, FinishedCommit
from headwater.client.consumer.complaints import Complaints
from headwater.client.consumer.consumer_member import ConsumerMember
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.consumer.fetcher import Fetcher
from headwater.client.consumer.group_session import GroupSession
from headwater.client.consumer.members import new_member
from headwater.client.consumer.membership import Change, Identity, Rebalance
from headwater.client.consumer.offset_reset import OffsetReset
from headwater.client.consumer.offsets import (
    NO_IDENTITY,
    OffsetAndTimestamp,
    Offsets,
)
from headwater.client.consumer.positions import Positions
from headwater.client.consumer.subscription import Subscription
from headwater.client.consumer.subscription_state import SubscriptionState
from headwater.client.errors import (
    ClientClosed,
    IllegalState,
    InvalidGroupId,
    KafkaError,
    KafkaTimeout,
    WokenUp,
    error_for,
)
from headwater.client.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from headwater.model.errors import ErrorCode
from headwater.model.ids import TopicPartition
from headwater.model.ports import Clock, Dice

T = TypeVar("T")
Committed = Mapping[TopicPartition, OffsetAndMetadata]


class ConsumerCore:
    """For the loop's thread, where it must also be made."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: ConsumerSettings,
        clock: Clock,
        dice: Dice,
    ) -> None:
        settings.check()
        self.settings = settings
        self._clock = clock
        self.cluster = ClusterClient(loop, settings, clock, dice)
        self.cluster.schedule.allows_creation = settings.allow_auto_create_topics
        self.cluster.on_metadata(self._metadata_changed)
        self.state = SubscriptionState(has_group=settings.group_id is not None)
        self._complaints = Complaints(self.state)
        self.offsets = Offsets(self.cluster, is_committed_only=settings.is_committed_only)
        self._positions = Positions(
            self.cluster,
            self.state,
            self.offsets,
            settings,
            complaints=self._complaints,
            identity=self._reader,
            changed=self._changed,
        )
        self._fetcher = Fetcher(
            self.cluster,
            self.state,
            settings,
            complaints=self._complaints,
            arrived=self._tell,
        )
        self.collecting = Collecting(
            self._fetcher,
            self.state,
            key_deserializer=settings.deserializer_of_keys(),
            value_deserializer=settings.deserializer_of_values(),
        )
        self._session = self._new_session()
        self._commits = self._new_commits()
        self._subscription = Subscription()
        self._news = asyncio.Event()
        self._is_woken = False
        self._is_closed = False
        self._commit_at_ms = clock.steady_ms() + settings.auto_commit_interval_ms

    # Subscribing.

    @property
    def subscription(self) -> Subscription:
        return self._subscription

    def subscribe(self, subscription: Subscription) -> None:
        self._check_open()
        self._subscription.check_not_manual()
        if self._session is None:
            raise InvalidGroupId("subscribing needs a group.id; without one, use assign")
        self._subscription = subscription
        if subscription.pattern is None:
            self.cluster.schedule.wants_all = False
            now_ms = self._clock.steady_ms()
            self.cluster.schedule.set_topics(list(subscription.topics), now_ms)
        else:
            self.cluster.schedule.wants_all = True
        self.cluster.want_refresh()
        self._tell_member()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these, without the group's help."""
        self._check_open()
        self._subscription.check_manual()
        wanted = [TopicPartition(*each) for each in partitions]
        self._subscription = Subscription(is_manual=bool(wanted))
        self._commit_now_and_then(is_due=True)
        self.state.assign(wanted)
        for each in wanted:
            self.cluster.use_topic(each.topic)
        self._changed()

    async def prepare_to_leave(self, *, deadline_ms: int) -> Rebalance | None:
        """Commit if that is automatic. Gives what the listener must hear of before we leave."""
        self._check_open()
        await self._commit_before_losing(tuple(self.state.partitions), deadline_ms)
        if self._session is None or not self._subscription.uses_group:
            return None
        owned = self._session.member.owned
        return Rebalance(Change.REVOKED, owned) if owned else None

    async def unsubscribe(self, *, deadline_ms: int) -> None:
        """Leave the group, and read nothing."""
        self._check_open()
        if self._session is not None:
            await self._session.close(deadline_ms=deadline_ms)
            self._session = self._new_session()
        self.state.assign(())
        self._subscription = Subscription()

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
            rebalance = await self._begin_rebalance(deadline_ms)
            if rebalance is not None:
                return rebalance
            self._complaints.raise_first()
            if is_first:
                self._commit_now_and_then()
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

    async def _begin_rebalance(self, deadline_ms: int) -> Rebalance | None:
        session = self._session
        if session is None or not self._subscription.uses_group:
            return None
        session.member.polled(self._clock.steady_ms())
        session.kick()
        if session.member.failure is not None:
            failure = session.member.failure
            session.member.forgive(self._clock.steady_ms())
            raise failure
        rebalance = session.member.rebalance
        if rebalance is None:
            return None
        if rebalance.change is Change.REVOKED:
            limit_ms = max(deadline_ms, self._deadline_ms(None))
            await self._commit_before_losing(rebalance.partitions, limit_ms)
        elif rebalance.change is Change.ASSIGNED:
            self.state.assign([*self.state.partitions, *rebalance.partitions])
            for each in rebalance.partitions:
                self.cluster.use_topic(each.topic)
        return rebalance

    def finish_rebalance(self) -> None:
        """The listener has heard of it."""
        session = self._session
        if session is None or session.member.rebalance is None:
            return
        rebalance = session.member.rebalance
        if rebalance.change is not Change.ASSIGNED:
            gone = set(rebalance.partitions)
            self.state.assign([each for each in self.state.partitions if each not in gone])
        session.member.rebalance_done()
        session.kick()
        self._changed()

    def wake_up(self) -> None:
        """End a poll that waits, or the next one."""
        self._is_woken = True
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

    def seek(self, partition: TopicPartition, where: int | OffsetReset) -> None:
        if isinstance(where, OffsetReset):
            self.state.reset(partition, where)
        elif where < 0:
            raise IllegalState(f"{where} is no offset to seek to")
        else:
            self.state.seek(partition, where)
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

    async def listed(
        self, timestamps: Mapping[TopicPartition, int], *, deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await self.offsets.listed(timestamps, deadline_ms=deadline_ms)

    # Commits.

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where the application is, everywhere."""
        return {
            partition: OffsetAndMetadata(state.position, "", state.position_epoch)
            for partition, state in self.state.partitions.items()
            if state.has_position
        }

    async def commit(self, offsets: Committed | None, *, deadline_ms: int) -> None:
        await self._committing().wait(
            self.consumed() if offsets is None else offsets, deadline_ms=deadline_ms
        )

    def start_commit(self, offsets: Committed | None, callback: CommitCallback | None) -> None:
        self._committing().start(self.consumed() if offsets is None else offsets, callback)

    def finished_commits(self) -> list[FinishedCommit]:
        """Commits whose callbacks are due. Also for the thread of a blocking consumer."""
        finished: list[FinishedCommit] = []
        while self._commits is not None and self._commits.finished:
            finished.append(self._commits.finished.popleft())
        return finished

    def group_metadata(self) -> ConsumerGroupMetadata:
        self._committing()
        assert self.settings.group_id is not None
        who = self._committer()
        return ConsumerGroupMetadata(
            group_id=self.settings.group_id,
            generation_id=who.generation_id,
            member_id=who.member_id,
            group_instance_id=who.group_instance_id,
        )

    async def committed(
        self, partitions: Iterable[TopicPartition], *, deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self._committing()
        assert self.settings.group_id is not None
        return await self.offsets.committed(
            self.settings.group_id, partitions, deadline_ms=deadline_ms, identity=self._reader()
        )

    # The end.

    async def close(self, *, deadline_ms: int) -> None:
        """Leave the group and close everything, within the time. May be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._session is not None:
                await self._session.close(deadline_ms=deadline_ms)
        finally:
            self._positions.close()
            if self._commits is not None:
                self._commits.close()
            self._fetcher.close()
            # One turn, in which the last words leave.
            await asyncio.sleep(0)
            self.cluster.close()
            self._tell()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    # Inside.

    def _new_session(self) -> GroupSession | None:
        group_id = self.settings.group_id
        if group_id is None:
            return None
        member = new_member(self.settings, group_id, self.cluster.dice)
        return GroupSession(self.cluster, group_id, member, changed=self._tell)

    def _new_commits(self) -> Commits | None:
        if self.settings.group_id is None:
            return None
        return Commits(
            self.cluster,
            self.offsets,
            self.settings.group_id,
            identity=self._committer,
            timeout_ms=self.settings.default_api_timeout_ms,
        )

    def _tell_member(self) -> None:
        """What the group must know of the subscription."""
        session, subscription = self._session, self._subscription
        if session is None or not subscription.uses_group:
            return
        wanted = subscription.wanted_topics(
            self.cluster.metadata, excludes_internal=self.settings.exclude_internal_topics
        )
        match session.member:
            case ClassicMember():
                session.member.subscribe(wanted)
            case ConsumerMember():
                session.member.subscribe(wanted, subscription.server_pattern)

    def _metadata_changed(self) -> None:
        if self._is_closed:
            return
        self._tell_member()
        if self._session is not None:
            self._session.metadata_changed()
        self._complain_of_topics()
        self._changed()

    def _complain_of_topics(self) -> None:
        """What can never be read is told; that a topic does not exist yet is none of that."""
        for topic in self._subscription.topics:
            view = self.cluster.metadata.topics.get(topic)
            code = ErrorCode.NONE if view is None else view.error
            if code is not ErrorCode.NONE and not code.is_retriable:
                error = error_for(code, f"topic {topic}: {code.name}")
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

    def _committer(self) -> Identity:
        if self._session is None or not self._subscription.uses_group:
            return NO_IDENTITY
        return self._session.member.identity

    def _reader(self) -> Identity:
        """Who asks for committed offsets; only the new protocol's members say who they are."""
        is_new = self.settings.group_protocol == "consumer"
        return self._committer() if is_new else NO_IDENTITY

    def _committing(self) -> Commits:
        self._check_open()
        if self._commits is None:
            raise InvalidGroupId("committing needs a group.id")
        return self._commits

    def _commit_now_and_then(self, *, is_due: bool = False) -> None:
        """Auto commit: what was polled before this poll is taken for handled."""
        if self._commits is None or not self.settings.enable_auto_commit:
            return
        now_ms = self._clock.steady_ms()
        if is_due or now_ms >= self._commit_at_ms:
            self._commit_at_ms = now_ms + self.settings.auto_commit_interval_ms
            consumed = self.consumed()
            if consumed:
                self._commits.start(consumed)

    async def _commit_before_losing(
        self, partitions: Iterable[TopicPartition], deadline_ms: int
    ) -> None:
        if self._commits is None or not self.settings.enable_auto_commit:
            return
        concerned = set(partitions)
        consumed = {each: what for each, what in self.consumed().items() if each in concerned}
        try:
            await self._commits.wait(consumed, deadline_ms=deadline_ms)
        except KafkaError:
            # The next owner reads some records again; that is what at-least-once means.
            return

    def _deadline_ms(self, timeout_s: float | None) -> int:
        limit_ms = self.settings.default_api_timeout_ms if timeout_s is None else timeout_s * 1000
        return self._clock.steady_ms() + int(limit_ms)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
