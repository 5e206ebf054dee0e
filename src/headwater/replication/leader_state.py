"""The leader side of a partition with replicas on other brokers.

Pure: events come with their time, and methods return the ISR changes to propose.

Note: this class does not hold the log. The log end offset and the high watermark are arguments, so
the log is the only place that stores them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import PartitionRegistration
from headwater.replication.follower_replica import (
    NO_BROKER_EPOCH,
    NO_OFFSET,
    FollowerReplica,
    LastFetch,
)
from headwater.replication.isr_state import (
    IsrProposal,
    IsrState,
    has_reached_isr,
    is_caught_up,
    out_of_sync_replicas,
)
from headwater.replication.purgatory.delayed_produce import DelayedProducePurgatory


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetch:
    """What a follower's fetch says about one partition."""

    node_id: NodeId
    broker_epoch: int
    offset: int
    log_start_offset: int
    session: LastFetch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRules:
    """Settings and broker state that all led partitions share.

    `registered_epoch` is the epoch of a live broker's registration, or -1 if unknown. Then the
    leader proposes the change and the controller checks the epoch.
    """

    lag_max_ms: int
    is_alive: Callable[[NodeId], bool]
    registered_epoch: Callable[[NodeId], int]

    def is_eligible(self, node_id: NodeId, broker_epoch: int) -> bool:
        """Return whether a broker may join the ISR: live, with its current epoch (ISR-3).

        Whether a broker is shutting down only the controller knows.
        """
        known = self.registered_epoch(node_id)
        return self.is_alive(node_id) and (
            broker_epoch == known or NO_BROKER_EPOCH in (broker_epoch, known)
        )

    def is_stale(self, node_id: NodeId, broker_epoch: int, latest_epoch: int) -> bool:
        """Return whether a fetch was sent under an older registration of its broker."""
        known = max(self.registered_epoch(node_id), latest_epoch)
        return NO_BROKER_EPOCH < broker_epoch < known


class LeaderState:
    """One partition during one leader epoch of this broker."""

    __slots__ = (
        "_end_offset",
        "_node_id",
        "_rules",
        "delayed_produces",
        "epoch_start",
        "followers",
        "isr",
    )

    def __init__(
        self,
        node_id: NodeId,
        state: PartitionRegistration,
        rules: LeaderRules,
        *,
        end_offset: int,
        now_ms: int,
        delayed_produces: DelayedProducePurgatory,
    ) -> None:
        self.isr = IsrState(state)
        self.epoch_start = end_offset
        self.followers: dict[NodeId, FollowerReplica] = {}
        self.delayed_produces = delayed_produces
        self._node_id = node_id
        self._rules = rules
        self._end_offset = end_offset
        self._update_followers(state, now_ms)

    def update(self, state: PartitionRegistration, now_ms: int) -> None:
        """Apply new replicas or a new ISR under the same leader epoch."""
        self.isr.update(state.isr, state.partition_epoch)
        self._update_followers(state, now_ms)

    def update_follower_fetch_state(
        self, fetch: FollowerFetch, *, end_offset: int, now_ms: int
    ) -> bool:
        """Record a fetch (HW-4); False if from no replica or with a stale epoch."""
        follower = self.followers.get(fetch.node_id)
        if follower is None or self._rules.is_stale(
            fetch.node_id, fetch.broker_epoch, follower.broker_epoch
        ):
            return False
        follower.update_fetch_state(
            offset=fetch.offset,
            log_start_offset=fetch.log_start_offset,
            broker_epoch=fetch.broker_epoch,
            leader_end=end_offset,
            now_ms=now_ms,
            session=fetch.session,
        )
        return True

    def stopped(self, node_id: NodeId, session: LastFetch) -> None:
        """The follower removed the partition from this fetch session."""
        follower = self.followers.get(node_id)
        if follower is not None and follower.session is session:
            follower.session = None

    def appended(self, end_offset: int) -> None:
        former_end, self._end_offset = self._end_offset, end_offset
        for follower in self.followers.values():
            follower.left_behind(former_end)

    def expand_isr(self, node_id: NodeId, *, high_watermark: int) -> IsrProposal | None:
        """Propose to add a follower to the ISR if it has caught up (ISR-3)."""
        if node_id in self.isr.committed or self.isr.pending is not None:
            return None
        follower = self.followers[node_id]
        if not has_reached_isr(
            follower, high_watermark=high_watermark, epoch_start_offset=self.epoch_start
        ) or not self._rules.is_eligible(node_id, follower.broker_epoch):
            return None
        return self.isr.propose_expand(node_id)

    def expand_isr_with_any(self, *, high_watermark: int, now_ms: int) -> IsrProposal | None:
        """Propose to add any follower that is fetching and has caught up.

        For changes other than a fetch: a follower that has caught up does not name the partition in
        its fetches, so no fetch would trigger the proposal.
        """
        for node_id, follower in self.followers.items():
            if follower.is_fetching(now_ms=now_ms, lag_max_ms=self._rules.lag_max_ms):
                proposal = self.expand_isr(node_id, high_watermark=high_watermark)
                if proposal is not None:
                    return proposal
        return None

    def shrink_isr(self, *, end_offset: int, now_ms: int) -> IsrProposal | None:
        """Propose to remove followers that lag (`replica.lag.time.max.ms`, ISR-1)."""
        if self.isr.pending is not None:
            return None
        lagging = out_of_sync_replicas(
            self.isr.committed,
            self.followers,
            leader=self._node_id,
            leader_end_offset=end_offset,
            now_ms=now_ms,
            lag_max_ms=self._rules.lag_max_ms,
        )
        return self.isr.propose_shrink(lagging) if lagging else None

    def committed_end(self, end_offset: int, *, min_in_sync: int, now_ms: int) -> int:
        """Return the offset up to which the maximal ISR has all records (HW-2, HW-3).

        Followers that have caught up and are about to join the ISR count too. -1 if the ISR is
        smaller than `min.insync.replicas`.
        """
        isr = self.isr
        if len(isr.committed) < min_in_sync:
            return NO_OFFSET
        committed = end_offset
        for node_id, follower in self.followers.items():
            if follower.end_offset < committed and (
                node_id in isr.maximal or self._is_about_to_join(node_id, end_offset, now_ms)
            ):
                committed = follower.end_offset
        return committed

    def broker_epochs(self, isr: tuple[NodeId, ...]) -> Iterator[tuple[NodeId, int]]:
        """Yield each member of an ISR with the broker epoch of its fetches, -1 if unknown."""
        for node_id in isr:
            follower = self.followers.get(node_id)
            yield node_id, NO_BROKER_EPOCH if follower is None else follower.broker_epoch

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the lowest log start offset of all live replicas (DR-1)."""
        starts = [
            follower.log_start_offset
            for node_id, follower in self.followers.items()
            if self._rules.is_alive(node_id)
        ]
        return min([log_start_offset, *starts])

    def _update_followers(self, state: PartitionRegistration, now_ms: int) -> None:
        known, self.followers = self.followers, {}
        for node_id in state.replicas:
            if node_id != self._node_id:
                self.followers[node_id] = known.get(node_id) or FollowerReplica(
                    is_in_sync=node_id in state.isr, now_ms=now_ms
                )

    def _is_about_to_join(self, node_id: NodeId, end_offset: int, now_ms: int) -> bool:
        follower = self.followers[node_id]
        return is_caught_up(
            follower, end_offset, now_ms=now_ms, lag_max_ms=self._rules.lag_max_ms
        ) and self._rules.is_eligible(node_id, follower.broker_epoch)
