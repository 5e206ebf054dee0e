"""The voter set and kraft.version at every offset of the log.

A VotersRecord takes effect when it is appended, not when it is committed, and is undone if the log
is truncated (KIP-853). So the whole uncommitted history is kept, and its last entry counts.
"""

from bisect import bisect_left, bisect_right
from typing import Generic, TypeVar

from headwater.raft.control_records import (
    KRaftVersionRecord,
    VotersRecord,
    read_control_records,
)
from headwater.raft.quorum_config import FETCH_MAX_BYTES
from headwater.raft.replicated_log import OffsetAndEpoch, ReplicatedLog
from headwater.raft.voter_set import VoterSet
from headwater.records.batch_header import Buffer, read_header

T = TypeVar("T")


class LogHistory(Generic[T]):
    """Values by the offset from which on they hold."""

    __slots__ = ("_offsets", "_values")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._values: list[T] = []

    def add_at(self, offset: int, value: T) -> None:
        assert not self._offsets or offset > self._offsets[-1], "offsets only rise"
        self._offsets.append(offset)
        self._values.append(value)

    def value_at_or_before(self, offset: int) -> T | None:
        index = bisect_right(self._offsets, offset)
        return self._values[index - 1] if index else None

    @property
    def last_entry(self) -> tuple[int, T] | None:
        return (self._offsets[-1], self._values[-1]) if self._offsets else None

    def truncate_new_entries(self, end_offset: int) -> None:
        """Remove entries at or after an offset."""
        keep = bisect_left(self._offsets, end_offset)
        del self._offsets[keep:], self._values[keep:]

    def truncate_old_entries(self, start_offset: int) -> None:
        """Remove entries before an offset, but for the last of them."""
        drop = bisect_right(self._offsets, start_offset) - 1
        if drop > 0:
            del self._offsets[:drop], self._values[:drop]

    def clear(self) -> None:
        self._offsets.clear()
        self._values.clear()


class KRaftControlRecordStateMachine:
    """Follows the control records of the log, committed or not."""

    __slots__ = ("_log", "_static_voters", "_versions", "_voters", "next_offset")

    def __init__(self, static_voters: VoterSet, log: ReplicatedLog) -> None:
        self._static_voters = static_voters
        self._log = log
        self._voters: LogHistory[VoterSet] = LogHistory()
        self._versions: LogHistory[int] = LogHistory()
        self.next_offset = -1

    def update_state(self) -> None:
        """Read the log beyond the last offset; first the snapshot if records are gone."""
        latest = self._log.latest_snapshot_id
        if latest is not None and (
            self.next_offset < 0 or self.next_offset < self._log.start_offset
        ):
            self._load_snapshot(latest)
        self.next_offset = max(self.next_offset, 0)
        while self.next_offset < self._log.end_offset:
            batches = self._log.read(self.next_offset, self._log.end_offset, FETCH_MAX_BYTES)
            self.next_offset = self._apply(batches, None)

    def truncate_new_entries(self, end_offset: int) -> None:
        self._voters.truncate_new_entries(end_offset)
        self._versions.truncate_new_entries(end_offset)
        self.next_offset = min(self.next_offset, end_offset)

    def truncate_old_entries(self, start_offset: int) -> None:
        self._voters.truncate_old_entries(start_offset)
        self._versions.truncate_old_entries(start_offset)

    @property
    def last_voter_set(self) -> VoterSet:
        entry = self._voters.last_entry
        return self._static_voters if entry is None else entry[1]

    @property
    def last_voter_set_offset(self) -> int | None:
        """Offset of the last VotersRecord: -1 in a bootstrap checkpoint, None if static."""
        entry = self._voters.last_entry
        return None if entry is None else entry[0]

    @property
    def last_kraft_version(self) -> int:
        entry = self._versions.last_entry
        return 0 if entry is None else entry[1]

    def voter_set_at(self, offset: int) -> VoterSet | None:
        return self._voters.value_at_or_before(offset)

    def kraft_version_at(self, offset: int) -> int:
        return self._versions.value_at_or_before(offset) or 0

    def _load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        self._voters.clear()
        self._versions.clear()
        content = bytearray()
        while True:
            part = self._log.read_snapshot(snapshot_id, len(content), FETCH_MAX_BYTES)
            assert part is not None, f"snapshot {snapshot_id} is gone"
            content += part.data
            if len(content) >= part.size:
                break
        self._apply(content, snapshot_id.offset - 1)
        self.next_offset = snapshot_id.offset

    def _apply(self, batches: Buffer, snapshot_offset: int | None) -> int:
        position = 0
        next_offset = 0
        while position < len(batches):
            header = read_header(batches, position)
            if header.is_control:
                batch = memoryview(batches)[position : position + header.size_bytes]
                for record in read_control_records(batch):
                    offset = record.offset if snapshot_offset is None else snapshot_offset
                    if isinstance(record.message, VotersRecord):
                        self._voters.add_at(offset, VoterSet.from_record(record.message))
                    elif isinstance(record.message, KRaftVersionRecord):
                        self._versions.add_at(offset, record.message.k_raft_version)
            next_offset = header.next_offset
            position += header.size_bytes
        return next_offset
