"""The leader's side of a partition that has replicas on other brokers too.

Pure: it is told what happened and at which time, and says which change of the in-sync replicas it
would like. What a reader would get wrong: it does not hold the log. Where the log ends and how far
its high watermark is come with every question, so there is one place only that knows.
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
from headwater.replication.isr_state import IsrProposal, IsrState
from headwater.replication.purgatory.delayed_produce import DelayedProducePurgatory


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetch:
    """What a follower's fetch says of itself in one partition."""

    node_id: NodeId
    broker_epoch: int
    offset: int
    log_start_offset: int
    pulse: LastFetch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRules:
    """What all led partitions of a broker share.

    `registered_epoch` is the broker epoch of a broker that is up, or -1 where it is not known:
    then the controller judges, which is asked in the end anyway.
    """

    lag_max_ms: int
    is_alive: Callable[[NodeId], bool]
    registered_epoch: Callable[[NodeId], int]

    def is_eligible(self, node_id: NodeId, broker_epoch: int) -> bool:
        """Whether it may be in sync: it is up, and what is up is what has fetched (ISR-3).

        That a broker shuts down is the controller's to know.
        """
        known = self.registered_epoch(node_id)
        return self.is_alive(node_id) and (
            broker_epoch == known or NO_BROKER_EPOCH in (broker_epoch, known)
        )

    def is_stale(self, node_id: NodeId, broker_epoch: int, latest_epoch: int) -> bool:
        """Whether a fetch came from a former life of a broker, and late."""
        known = max(self.registered_epoch(node_id), latest_epoch)
        return NO_BROKER_EPOCH < broker_epoch < known


class LeaderState:
    """One partition during one leader epoch of this broker."""

    __slots__ = (
        "_end_offset",
        "_node_id",
        "_rules",
        "epoch_start",
        "followers",
        "in_sync",
        "waits",
    )

    def __init__(
        self,
        node_id: NodeId,
        state: PartitionRegistration,
        rules: LeaderRules,
        *,
        end_offset: int,
        now_ms: int,
        waits: DelayedProducePurgatory,
    ) -> None:
        self.in_sync = IsrState(state)
        self.epoch_start = end_offset
        self.followers: dict[NodeId, FollowerReplica] = {}
        self.waits = waits
        self._node_id = node_id
        self._rules = rules
        self._end_offset = end_offset
        self._meet(state, now_ms)

    def place(self, state: PartitionRegistration, now_ms: int) -> None:
        """Replicas or in-sync replicas are others, under the same leader epoch."""
        self.in_sync.place(state.isr, state.partition_epoch)
        self._meet(state, now_ms)

    def fetched(self, fetch: FollowerFetch, *, end_offset: int, now_ms: int) -> bool:
        """A follower has all up to here (HW-4). False if it is no replica, or was one formerly."""
        follower = self.followers.get(fetch.node_id)
        if follower is None or self._rules.is_stale(
            fetch.node_id, fetch.broker_epoch, follower.broker_epoch
        ):
            return False
        follower.fetched(
            offset=fetch.offset,
            log_start_offset=fetch.log_start_offset,
            broker_epoch=fetch.broker_epoch,
            leader_end=end_offset,
            now_ms=now_ms,
            pulse=fetch.pulse,
        )
        return True

    def stopped(self, node_id: NodeId, pulse: LastFetch) -> None:
        """A follower does not fetch it in this session any more."""
        follower = self.followers.get(node_id)
        if follower is not None and follower.pulse is pulse:
            follower.pulse = None

    def appended(self, end_offset: int) -> None:
        former_end, self._end_offset = self._end_offset, end_offset
        for follower in self.followers.values():
            follower.left_behind(former_end)

    def joining(self, node_id: NodeId, *, high_watermark: int) -> IsrProposal | None:
        """The wish to have a follower in sync, if it has caught up (ISR-3)."""
        if node_id in self.in_sync.committed or self.in_sync.pending is not None:
            return None
        follower = self.followers[node_id]
        if follower.end_offset < max(high_watermark, self.epoch_start):
            return None
        if not self._rules.is_eligible(node_id, follower.broker_epoch):
            return None
        return self.in_sync.propose_joining(node_id)

    def any_joining(self, *, high_watermark: int, now_ms: int) -> IsrProposal | None:
        """The same for whoever fetches and is not in sync yet.

        Asked when something else than a fetch has changed: a follower that has everything says
        nothing more of the partition, and would wait for ever.
        """
        for node_id, follower in self.followers.items():
            if follower.is_fetching(now_ms=now_ms, lag_max_ms=self._rules.lag_max_ms):
                proposal = self.joining(node_id, high_watermark=high_watermark)
                if proposal is not None:
                    return proposal
        return None

    def leaving(self, *, end_offset: int, now_ms: int) -> IsrProposal | None:
        """The wish to be without those that lag (ISR-1)."""
        if self.in_sync.pending is not None:
            return None
        lagging = tuple(
            node_id
            for node_id in self.in_sync.committed
            if node_id != self._node_id and not self._is_caught_up(node_id, end_offset, now_ms)
        )
        return self.in_sync.propose_leaving(lagging) if lagging else None

    def committed_end(self, end_offset: int, *, min_in_sync: int, now_ms: int) -> int:
        """Up to where all have everything who are in sync or about to be (HW-2, HW-3)."""
        in_sync = self.in_sync
        if len(in_sync.committed) < min_in_sync:
            return NO_OFFSET
        committed = end_offset
        for node_id, follower in self.followers.items():
            if follower.end_offset < committed and (
                node_id in in_sync.maximal or self._is_about_to_join(node_id, end_offset, now_ms)
            ):
                committed = follower.end_offset
        return committed

    def broker_epochs(self, isr: tuple[NodeId, ...]) -> Iterator[tuple[NodeId, int]]:
        """As which incarnations the members of an in-sync set have fetched; -1 where unknown."""
        for node_id in isr:
            follower = self.followers.get(node_id)
            yield node_id, NO_BROKER_EPOCH if follower is None else follower.broker_epoch

    def low_watermark(self, log_start_offset: int) -> int:
        """Below it no living replica has anything (DR-1)."""
        starts = [
            follower.log_start_offset
            for node_id, follower in self.followers.items()
            if self._rules.is_alive(node_id)
        ]
        return min([log_start_offset, *starts])

    def _meet(self, state: PartitionRegistration, now_ms: int) -> None:
        known, self.followers = self.followers, {}
        for node_id in state.replicas:
            if node_id != self._node_id:
                self.followers[node_id] = known.get(node_id) or FollowerReplica(
                    is_in_sync=node_id in state.isr, now_ms=now_ms
                )

    def _is_caught_up(self, node_id: NodeId, end_offset: int, now_ms: int) -> bool:
        follower = self.followers.get(node_id)
        return follower is not None and follower.is_caught_up(
            end_offset, now_ms=now_ms, lag_max_ms=self._rules.lag_max_ms
        )

    def _is_about_to_join(self, node_id: NodeId, end_offset: int, now_ms: int) -> bool:
        follower = self.followers[node_id]
        return self._is_caught_up(node_id, end_offset, now_ms) and self._rules.is_eligible(
            node_id, follower.broker_epoch
        )
