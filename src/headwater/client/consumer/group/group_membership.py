"""Group membership of a consumer: rebalances and offset commits.

Does nothing without a `group.id`.

Runs on the loop's thread.

Note: a consumer need not be a member to commit. With manually assigned partitions it commits for
the group without a member id.
"""

from collections.abc import Callable, Iterable, Mapping

from headwater.client.consumer.consumer_metrics import ConsumerMetrics
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.consumer.group.classic_member import ClassicMember
from headwater.client.consumer.group.consumer_member import ConsumerMember
from headwater.client.consumer.group.heartbeat_loop import HeartbeatLoop
from headwater.client.consumer.group.member import AssignmentChange, Identity, Rebalance
from headwater.client.consumer.group.member_factory import new_member
from headwater.client.consumer.group.offset_commits import CommitCallback, OffsetCommits
from headwater.client.consumer.interceptors import ConsumerInterceptors
from headwater.client.consumer.offset_requests import NO_IDENTITY, OffsetRequests
from headwater.client.consumer.subscription import Subscription
from headwater.client.consumer.subscription_state import SubscriptionState
from headwater.client.errors import InvalidGroupId, KafkaError
from headwater.client.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from headwater.client.network.cluster_client import ClusterClient
from headwater.common.ids import TopicPartition

Committed = Mapping[TopicPartition, OffsetAndMetadata]


class GroupMembership:
    """`changed` is called when the member may have an event for the application."""

    def __init__(
        self,
        cluster: ClusterClient,
        state: SubscriptionState,
        offsets: OffsetRequests,
        settings: ConsumerSettings,
        *,
        interceptors: ConsumerInterceptors,
        metrics: ConsumerMetrics,
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._state = state
        self._offsets = offsets
        self._settings = settings
        self._interceptors = interceptors
        self._metrics = metrics
        self._changed = changed
        self._session = self._new_session()
        self._commits = self._new_commits()
        self._commit_at_ms = self._clock.steady_ms() + settings.auto_commit_interval_ms
        self._has_polled = False
        self.subscription = Subscription()

    # Membership.

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """The partitions that the group has assigned to this member."""
        if self._session is None or not self.subscription.uses_group:
            return ()
        return self._session.member.owned

    def subscribe(self, subscription: Subscription) -> None:
        if self._session is None:
            raise InvalidGroupId("subscribe requires group.id; without one, use assign")
        self.subscription = subscription

    def update_member(self) -> None:
        """Pass the subscription to the member."""
        session, subscription = self._session, self.subscription
        if session is None or not subscription.uses_group:
            return
        wanted = subscription.wanted_topics(
            self._cluster.metadata, excludes_internal=self._settings.exclude_internal_topics
        )
        match session.member:
            case ClassicMember():
                session.member.subscribe(wanted)
            case ConsumerMember():
                session.member.subscribe(wanted, subscription.server_pattern)

    def metadata_changed(self) -> None:
        self.update_member()
        if self._session is not None:
            self._session.metadata_changed()

    def try_poll(self) -> bool:
        """Count a poll as liveness; False if a commit or rebalance is due."""
        self._has_polled = True
        now_ms = self._clock.steady_ms()
        if (
            self._commits is not None
            and self._settings.enable_auto_commit
            and now_ms >= self._commit_at_ms
        ):
            return False
        session = self._session
        if session is None or not self.subscription.uses_group:
            return True
        return session.try_poll(now_ms)

    async def begin_rebalance(self, *, deadline_ms: int) -> Rebalance | None:
        """The rebalance to handle before records are returned; counts the poll.

        A poll proves that the application is alive.
        """
        self._has_polled = True
        session = self._session
        if session is None or not self.subscription.uses_group:
            return None
        session.member.polled(self._clock.steady_ms())
        session.wake_up()
        if session.member.failure is not None:
            failure = session.member.failure
            session.member.clear_failure(self._clock.steady_ms())
            raise failure
        rebalance = session.member.rebalance
        if rebalance is None:
            return None
        if rebalance.change is AssignmentChange.REVOKED:
            usual_ms = self._clock.steady_ms() + self._settings.default_api_timeout_ms
            await self.commit_before_revocation(
                rebalance.partitions, deadline_ms=max(deadline_ms, usual_ms)
            )
        elif rebalance.change is AssignmentChange.ASSIGNED:
            self._state.assign([*self._state.partitions, *rebalance.partitions])
            for each in rebalance.partitions:
                self._cluster.use_topic(each.topic)
        return rebalance

    def finish_rebalance(self) -> bool:
        """Continue after the listener has run; return whether there was a rebalance."""
        session = self._session
        if session is None or session.member.rebalance is None:
            return False
        rebalance = session.member.rebalance
        if rebalance.change is AssignmentChange.ASSIGNED:
            self._metrics.rebalance_count += 1
        else:
            removed = set(rebalance.partitions)
            self._state.assign([each for each in self._state.partitions if each not in removed])
        session.member.rebalance_done()
        session.wake_up()
        return True

    async def leave(self, *, deadline_ms: int) -> None:
        """Leave the group; a later subscription joins as a new member."""
        if self._session is not None:
            await self._session.close(deadline_ms=deadline_ms)
            self._session = self._new_session()
        self.subscription = Subscription()

    async def close(self, *, deadline_ms: int) -> None:
        try:
            if self._session is not None:
                await self._session.close(deadline_ms=deadline_ms)
        finally:
            if self._commits is not None:
                self._commits.close()

    # Identity.

    def committer(self) -> Identity:
        if self._session is None or not self.subscription.uses_group:
            return NO_IDENTITY
        return self._session.member.identity

    def _is_outside(self) -> bool:
        return self.subscription.uses_group and self.committer().generation_id < 0

    def reader(self) -> Identity:
        """The identity in OffsetFetch; only members of the consumer protocol send one."""
        is_new = self._settings.group_protocol == "consumer"
        return self.committer() if is_new else NO_IDENTITY

    def metadata(self) -> ConsumerGroupMetadata:
        who = self.committer()
        return ConsumerGroupMetadata(
            group_id=self._group_id(),
            generation_id=who.generation_id,
            member_id=who.member_id,
            group_instance_id=who.group_instance_id,
        )

    # Commits.

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions of all partitions."""
        return {
            partition: OffsetAndMetadata(state.position, "", state.position_epoch)
            for partition, state in self._state.partitions.items()
            if state.has_position
        }

    async def commit(self, offsets: Committed | None, *, deadline_ms: int) -> None:
        await self._committing().wait(
            self.consumed() if offsets is None else offsets, deadline_ms=deadline_ms
        )

    def start_commit(self, offsets: Committed | None, callback: CommitCallback | None) -> None:
        self._committing().start(self.consumed() if offsets is None else offsets, callback)

    def run_callbacks(self) -> None:
        """Run callbacks of asynchronous commits. In the application's thread."""
        while self._commits is not None and self._commits.finished:
            finished = self._commits.finished.popleft()
            finished.callback(finished.offsets, finished.error)

    async def committed(
        self, partitions: Iterable[TopicPartition], *, deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return await self._offsets.committed(
            self._group_id(), partitions, deadline_ms=deadline_ms, identity=self.reader()
        )

    def maybe_auto_commit(self, *, is_due: bool = False) -> None:
        """Auto commit, if due: records of earlier polls count as processed."""
        if self._commits is None or not self._auto_commit_enabled:
            return
        now_ms = self._clock.steady_ms()
        # If too many commits are pending, the next one makes up for this one.
        if (is_due or now_ms >= self._commit_at_ms) and not self._commits.is_full:
            self._commit_at_ms = now_ms + self._settings.auto_commit_interval_ms
            consumed = self.consumed()
            if consumed:
                self._commits.start(consumed)

    async def await_pending_commits(self, *, deadline_ms: int) -> None:
        """Wait for pending asynchronous commits."""
        if self._commits is not None:
            await self._commits.await_pending(deadline_ms=deadline_ms)

    async def commit_before_revocation(
        self, partitions: Iterable[TopicPartition], *, deadline_ms: int
    ) -> None:
        if self._commits is None or not self._auto_commit_enabled:
            return
        concerned = set(partitions)
        consumed = {each: what for each, what in self.consumed().items() if each in concerned}
        try:
            await self._commits.wait(consumed, deadline_ms=deadline_ms)
        except KafkaError:
            # The next owner consumes some records again (at least once).
            return

    # Inside.

    @property
    def _auto_commit_enabled(self) -> bool:
        """Not before the first poll: until then positions are not progress."""
        return self._settings.enable_auto_commit and self._has_polled

    def _new_session(self) -> HeartbeatLoop | None:
        group_id = self._settings.group_id
        if group_id is None:
            return None
        member = new_member(self._settings, group_id, self._cluster.rng)
        return HeartbeatLoop(self._cluster, group_id, member, changed=self._changed)

    def _new_commits(self) -> OffsetCommits | None:
        if self._settings.group_id is None:
            return None
        return OffsetCommits(
            self._cluster,
            self._offsets,
            self._settings.group_id,
            identity=self.committer,
            is_outside=self._is_outside,
            assignment=lambda partition: self._state.partitions.get(partition),
            metrics=self._metrics,
            watcher=self._interceptors.on_commit if self._interceptors.watches_commits else None,
            timeout_ms=self._settings.default_api_timeout_ms,
        )

    def _group_id(self) -> str:
        if self._settings.group_id is None:
            raise InvalidGroupId("committing requires group.id")
        return self._settings.group_id

    def _committing(self) -> OffsetCommits:
        self._group_id()
        assert self._commits is not None
        return self._commits
