"""The rules of Raft, checked over all replicas of a quorum.

Election safety: at most one leader per epoch. Log matching: an epoch and an offset identify a batch
and the one before it. Leader completeness: a new leader has everything that was committed before.
State machine safety: replicas apply the same batches at the same offsets. Durability: what a leader
commits is synced on a majority of its voters. Committed prefix: followers and observers apply only
what a leader has committed. Truncation: no replica cuts its log below its high watermark.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.voter_set import ReplicaKey, VoterSet
from tests.simulation.fakes.lossy_raft_log import Batch, LossyRaftLog

GENESIS = b"genesis"


class CheckFailed(AssertionError):
    """A rule does not hold."""


def chained(digest: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(digest + data, digest_size=16).digest()


@dataclass(slots=True)
class QuorumChecks:
    leaders: dict[int, ReplicaKey] = field(default_factory=dict)
    batches: dict[tuple[int, int], tuple[bytes, int]] = field(default_factory=dict)
    # End offset of a committed batch: state after it, and its epoch.
    committed: dict[int, tuple[bytes, int]] = field(default_factory=lambda: {0: (GENESIS, 0)})
    # The epoch of the leader that committed it.
    committed_by: dict[int, int] = field(default_factory=dict)
    committed_end: int = 0
    commits_by_count: int = 0

    def leader(self, key: ReplicaKey, epoch: int, log: LossyRaftLog) -> None:
        """A replica leads an epoch, and its election state says so on its disk."""
        known = self.leaders.get(epoch)
        if known is not None:
            if known != key:
                raise CheckFailed(f"election safety: {known} and {key} lead epoch {epoch}")
            return
        self.leaders[epoch] = key
        # Its successor may have committed more by the time its own disk has synced.
        end = max(
            (
                OffsetAndEpoch(offset, self.committed[offset][1])
                for offset, leader_epoch in self.committed_by.items()
                if leader_epoch < epoch
            ),
            default=OffsetAndEpoch(0, 0),
        )
        if end.offset > 0 and not log.image.contains(end):
            raise CheckFailed(
                f"leader completeness: {key} leads epoch {epoch} without the commit at {end}; "
                f"its log ends at {log.end_offset} in epoch {log.last_fetched_epoch}"
            )

    def appended(self, key: ReplicaKey, batch: Batch, previous_epoch: int) -> None:
        """A batch may have left a replica, or is durable on it."""
        identity = (batch.epoch, batch.base_offset)
        seen = self.batches.setdefault(identity, (batch.data, previous_epoch))
        if seen != (batch.data, previous_epoch):
            raise CheckFailed(
                f"log matching: {key} has another batch at offset {batch.base_offset} of epoch "
                f"{batch.epoch}"
            )

    def applied(
        self, key: ReplicaKey, digest: bytes, batch: Batch, *, leader_epoch: int | None
    ) -> bytes:
        """A replica applies a batch; only a leader may be the first to do so."""
        before = self.committed.get(batch.base_offset)
        if before is None or before[0] != digest:
            raise CheckFailed(
                f"state machine safety: {key} applies offset {batch.base_offset} on another state"
            )
        after = (chained(digest, batch.data), batch.epoch)
        known = self.committed.get(batch.next_offset)
        if known is None:
            if batch.next_offset < self.committed_end:
                raise CheckFailed(
                    f"state machine safety: {key} applies other batches at {batch.base_offset}"
                )
            if leader_epoch is None:
                raise CheckFailed(
                    f"committed prefix: {key} applies offset {batch.next_offset - 1}, which no "
                    f"leader has committed"
                )
            self.committed[batch.next_offset] = after
            self.committed_by[batch.next_offset] = leader_epoch
            self.committed_end = batch.next_offset
        elif known != after:
            raise CheckFailed(
                f"state machine safety: {key} applies another batch at offset {batch.base_offset}"
            )
        return after[0]

    def durable_on_majority(
        self,
        key: ReplicaKey,
        end: OffsetAndEpoch,
        voters: VoterSet,
        disks: list[tuple[ReplicaKey, LossyRaftLog]],
    ) -> None:
        """A leader commits up to an offset."""
        self.commits_by_count += 1
        holders = [
            holder for holder, log in disks if voters.is_voter(holder) and log.durable.contains(end)
        ]
        if len(holders) < voters.majority:
            raise CheckFailed(
                f"durability: leader {key} commits {end}, synced on {[str(h) for h in holders]} "
                f"of {[str(each) for each in voters.keys]}"
            )

    def snapshot_loaded(self, key: ReplicaKey, snapshot_id: OffsetAndEpoch, digest: bytes) -> None:
        known = self.committed.get(snapshot_id.offset)
        if known is None or known[0] != digest:
            raise CheckFailed(
                f"state machine safety: {key} loads a snapshot {snapshot_id} of another state"
            )

    def truncated(self, key: ReplicaKey, offset: int, high_watermark: int) -> None:
        if offset < high_watermark:
            raise CheckFailed(
                f"truncation: {key} truncates to {offset}, below its high watermark "
                f"{high_watermark}"
            )
