"""Port to the metadata log, and the offsets that replicas compare.

`append_as_leader`, `append_as_follower` and the truncations change what `read` returns at once, but
nothing of it is durable before the shell has carried out the next `FlushLog` effect.
"""

from enum import Enum
from typing import Final, NamedTuple, Protocol

from headwater.records.batch_header import Buffer


class OffsetAndEpoch(NamedTuple):
    """An end offset and the epoch of the record before it; also the id of a snapshot."""

    offset: int
    epoch: int

    def is_at_least(self, that: "OffsetAndEpoch") -> bool:
        """Whether a log that ends here is as up-to-date as that one (Raft, 5.4.1)."""
        return (self.epoch, self.offset) >= (that.epoch, that.offset)


BOOTSTRAP_SNAPSHOT_ID: Final = OffsetAndEpoch(0, 0)


class LogOffsetMetadata(NamedTuple):
    """An offset of the log; Kafka's also carries the position in the segment."""

    offset: int


class Isolation(Enum):
    """How far a read may go: to the end of the log, or to the high watermark."""

    UNCOMMITTED = "uncommitted"
    COMMITTED = "committed"


class LogAppendInfo(NamedTuple):
    """Offsets of an append."""

    first_offset: int
    last_offset: int


class SnapshotSlice(NamedTuple):
    """Bytes of a snapshot from a position on, and the size of the whole."""

    size: int
    data: Buffer


class RawSnapshotWriter(Protocol):
    """A snapshot that a follower is fetching."""

    @property
    def snapshot_id(self) -> OffsetAndEpoch: ...

    @property
    def size_bytes(self) -> int: ...

    def append(self, data: Buffer) -> None: ...

    def freeze(self) -> None:
        """Make the snapshot durable and visible. Synchronous: fetched snapshots are rare."""


class ReplicatedLog(Protocol):
    """The log `__cluster_metadata-0` of one replica, with its snapshots."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def last_fetched_epoch(self) -> int:
        """Epoch of the last record; of the latest snapshot if the log is empty; else 0."""

    def append_as_leader(self, batches: bytearray, epoch: int) -> LogAppendInfo:
        """Stamp offsets and epoch into the batches and append them."""

    def append_as_follower(self, batches: Buffer) -> LogAppendInfo: ...

    def initialize_leader_epoch(self, epoch: int) -> None: ...

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch up to the given one, and where it ends."""

    def truncate_to(self, offset: int) -> None: ...

    def read(self, offset: int, end_offset: int, max_bytes: int) -> Buffer:
        """Whole batches from an offset on, below an end; at least one, whatever its size."""

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None: ...

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None: ...

    def read_snapshot(
        self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int
    ) -> SnapshotSlice | None: ...

    def create_new_snapshot(self, snapshot_id: OffsetAndEpoch) -> RawSnapshotWriter | None:
        """A writer; None if a snapshot of this id exists."""

    def truncate_to_latest_snapshot(self) -> bool:
        """Empty the log and start at the latest snapshot, if it is beyond the end."""

    def delete_before_snapshot(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Delete older snapshots and the records that this snapshot covers."""


class ValidOffsetAndEpoch(NamedTuple):
    """What a leader says of a fetch position: exactly one field is set."""

    valid: OffsetAndEpoch | None = None
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None


def validate_offset_and_epoch(log: ReplicatedLog, offset: int, epoch: int) -> ValidOffsetAndEpoch:
    """Compare a follower's fetch offset and last epoch with the leader's log."""
    latest = log.latest_snapshot_id
    if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT_ID:
        # An empty replica gets the snapshot even if the log still has all records.
        return ValidOffsetAndEpoch(snapshot=latest)
    if log.start_offset == 0 and offset == 0:
        return ValidOffsetAndEpoch(valid=OffsetAndEpoch(0, 0))
    earliest = log.earliest_snapshot_id
    if earliest is not None and (
        offset < log.start_offset
        or (offset == log.start_offset and epoch != earliest.epoch)
        or epoch < earliest.epoch
    ):
        assert latest is not None
        return ValidOffsetAndEpoch(snapshot=latest)
    end = log.end_offset_for_epoch(epoch)
    if end.epoch != epoch or end.offset < offset:
        return ValidOffsetAndEpoch(diverging=end)
    return ValidOffsetAndEpoch(valid=OffsetAndEpoch(offset, epoch))
