"""LocalLog: the segments of one log: append, read, roll, truncate, delete.

It knows offsets and positions, but not producers, epochs or watermarks; those are in `unified_log`.
Used from one thread. Only the jobs that it returns run on other threads, and they touch only files
that are held open for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import NamedTuple

from headwater.common.ids import NO_TIMESTAMP
from headwater.records.batch_header import BatchHeader, Buffer
from headwater.storage.cleaner import segment_swap
from headwater.storage.cleaner.cleaning_job import CleanedGroup
from headwater.storage.index.sparse_indexes import AppendedBatch
from headwater.storage.index.transaction_index import AbortedTransaction, collect_aborted
from headwater.storage.io.disk import File
from headwater.storage.io.file_range import FileRange
from headwater.storage.log import partition_metadata_file
from headwater.storage.log.batch_walk import PlacedHeader
from headwater.storage.log.segment import LogSegment
from headwater.storage.log.segment_factory import SegmentFactory
from headwater.storage.log.segment_files import DELETED, SEGMENT_KINDS, path_of
from headwater.storage.log.segments import LogSegments
from headwater.storage.log_manager.pending_deletes import PendingDeletes

# Each segment of a sync holds some open files. Usually there are one or two segments, but in a
# directory that has lost its checkpoints nothing counts as flushed.
_SEGMENTS_PER_SYNC = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RollRule:
    """Limits for rolling; each segment subtracts its jitter from `segment_ms`."""

    segment_bytes: int
    segment_ms: int


class SyncJob(NamedTuple):
    """Function that syncs content up to an offset, and one that releases files."""

    sync: Callable[[], None]
    release: Callable[[], None]
    up_to_offset: int
    is_all: bool


class LocalLog:
    """Segments and the log end offset."""

    __slots__ = (
        "_bound",
        "_names_synced",
        "_removals",
        "end_offset",
        "home",
        "is_folder_durable",
        "segments",
        "truncations",
    )

    def __init__(
        self,
        home: SegmentFactory,
        segments: LogSegments,
        *,
        end_offset: int,
        removals: PendingDeletes,
        is_folder_durable: bool = True,
    ) -> None:
        self.home = home
        self.segments = segments
        self.end_offset = end_offset
        # A new directory is not durable until the first flush has synced its name.
        self.is_folder_durable = is_folder_durable
        # Incremented by every truncation, so that concurrent work can detect that it is stale.
        self.truncations = 0
        self._removals = removals
        self._names_synced = False
        self._bound: tuple[int, LogSegment, int] | None = None

    def needs_roll(
        self,
        rule: RollRule,
        *,
        size_bytes: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
        pending_bytes: int = 0,
    ) -> bool:
        """Whether an append needs a new segment (RL-1); only appends roll by age.

        `pending_bytes` are those of earlier batches of the same run, not written yet.
        """
        active = self.segments.active
        if not active.has_room_for(size_bytes, last_offset, rule.segment_bytes, pending_bytes):
            return True
        if not active.size:
            return False
        first_timestamp = active.first_timestamp
        limit_ms = rule.segment_ms - active.roll_jitter_ms
        if first_timestamp == NO_TIMESTAMP or max_timestamp == NO_TIMESTAMP:
            return now_ms - active.created_ms > limit_ms
        return max_timestamp - first_timestamp > limit_ms

    def roll(self, now_ms: int, *, base_offset: int | None = None) -> LogSegment:
        """Start a segment at the log end (RL-2), or later after a follower's gap.

        An empty active segment at the same base offset is re-created (RL-3).
        """
        base_offset = self.end_offset if base_offset is None else base_offset
        assert base_offset >= self.end_offset, "segments do not overlap"
        active = self.segments.active
        active.seal()
        active.trim()
        # Created before the old one is dropped: if descriptors have run out, nothing has happened.
        segment = LogSegment.create(self.home, base_offset, created_ms=now_ms)
        if active.base_offset == base_offset:
            assert not active.size, "a segment with data ends after its base offset"
            self.segments.remove([active])
            active.forget()
        self.segments.add(segment)
        self._names_synced = False
        return segment

    def append(self, content: Buffer, batches: Sequence[AppendedBatch]) -> None:
        self.segments.active.append(content, batches)
        self.end_offset = batches[-1][1] + 1

    def read(
        self, offset: int, *, max_bytes: int, bound_offset: int, at_least_one: bool
    ) -> FileRange | None:
        """Return the range from the offset's batch to a bound, or None if empty.

        The range stays within one segment and may end inside a batch, but never inside the first
        one. With `at_least_one` the first batch is complete even if it exceeds the limit (FT-2).
        """
        segments = self.segments
        for index in range(segments.index_of(offset), len(segments)):
            segment = segments[index]
            placed = segment.position_range(offset)
            if placed is None:
                continue
            position, batch_end = placed
            end = self._end_within(segment, index, bound_offset)
            length = min(max_bytes, end - position)
            if position + length < batch_end:
                if not at_least_one or batch_end > end:
                    return None
                length = batch_end - position
            return FileRange(segment.log, position, length)
        return None

    def remember_read(
        self, found: FileRange, last: tuple[int, BatchHeader] | None, *, truncations: int
    ) -> None:
        """Remember where a cold range ends, because its reader will come back for more.

        If the last batch of the range was incomplete, it is the next one to be fetched.
        `truncations` is the log's count when the range was found: after a truncation other records
        may be there.
        """
        if last is None or not last[0] or truncations != self.truncations:
            return
        at, header = last
        segment = self.segments[self.segments.index_of(header.base_offset)]
        if segment.log is found.file and at + header.size_bytes > found.length:
            segment.expect(found.position + at, header)

    def aborted_within(self, offset: int, found: FileRange) -> list[AbortedTransaction]:
        """Return the aborted transactions for a read_committed fetch (LSO-2)."""
        segments = self.segments
        index = segments.index_of(offset)
        while segments[index].log is not found.file:
            index += 1
        later = [segments[each].transactions for each in range(index, len(segments))]
        if not any(map(len, later)):
            # The common case; librdkafka reads with read_committed by default.
            return []
        upper_offset = self._offset_after(index, found.position + found.length)
        return collect_aborted(later, fetch_offset=offset, upper_offset=upper_offset)

    def recent_producer_batches(self, size_bytes: int) -> Iterator[PlacedHeader]:
        """Yield producers' batches in about the last `size_bytes` (two segments).

        Only the last few per producer and stretch, see `producer_batches_since`.
        """
        for segment in reversed(list(self.segments)[-2:]):
            start = segment.base_offset
            if segment.size > size_bytes:
                indexed = segment.offset_index.offset_at_or_after(segment.size - size_bytes)
                start = start if indexed is None else indexed
            yield from segment.producer_batches_since(start)
            size_bytes -= segment.size
            if size_bytes <= 0:
                return

    def bytes_since(self, offset: int) -> int:
        """Return the bytes from the batch that holds or follows an offset to the log end."""
        first, *later = self.segments.since(offset)
        placed = first.position_range(offset)
        here = 0 if placed is None else first.size - placed[0]
        return here + sum(segment.size for segment in later)

    def batch_at(self, offset: int) -> BatchHeader | None:
        """Return the batch that holds an offset or follows it in its segment."""
        placed = self.segments[self.segments.index_of(offset)].locate(offset)
        return None if placed is None else placed.header

    def end_before(self, offset: int) -> tuple[int, int]:
        """Return the log end after truncating to an offset, and the base of that segment."""
        segment = self.segments[self.segments.index_of(offset)]
        return segment.end_before(offset), segment.base_offset

    def truncate_to(self, offset: int) -> None:
        """Remove everything from the offset on, which must come from `end_before`."""
        self.truncations += 1
        self._bound = None
        removed = [segment for segment in self.segments if segment.base_offset > offset]
        assert len(removed) < len(self.segments), (
            "truncation below the first segment must use start_over"
        )
        self.drop_tail(removed)
        self.segments.active.truncate_to(offset)
        self.end_offset = offset

    def start_over(self, offset: int, *, now_ms: int) -> None:
        """Drop all content and continue, empty, at an offset."""
        self.truncations += 1
        self._bound = None
        self.drop_tail(list(self.segments))
        self.end_offset = offset
        self.segments.add(LogSegment.create(self.home, offset, created_ms=now_ms))
        self._names_synced = False

    def drop(self, segments: Sequence[LogSegment], *, now_ms: int, delay_ms: int) -> None:
        """Remove whole segments from the log; their files are deleted later (RT-5)."""
        self._bound = None
        for segment in segments:
            self.segments.remove([segment])
            renamed = self._rename_deleted(segment)
            self._removals.add(renamed, now_ms=now_ms, delay_ms=delay_ms)

    def swap_in(self, group: CleanedGroup, *, now_ms: int, delay_ms: int) -> None:
        """Replace segments with one compacted segment; files are deleted later."""
        self._bound = None
        replaced = dict.fromkeys(source.base_offset for source in group.replaced)
        old = [segment for segment in self.segments if segment.base_offset in replaced]
        renamed = segment_swap.swap_in(self.home.disk, self.home.folder, group)
        for segment in old:
            segment.forget()
        new = LogSegment(
            self.home, group.base_offset, size=group.size_bytes, created_ms=group.modified_ms
        )
        self.segments.replace(old, [new])
        self._removals.add(renamed, now_ms=now_ms, delay_ms=delay_ms)

    def sync_job(self, from_offset: int) -> SyncJob:
        """Return a job that syncs some segments from an offset on.

        If descriptors run out, no file is held and nothing counts as synced.
        """
        disk, folder = self.home.disk, self.home.folder
        sync_names, sync_folder = not self._names_synced, not self.is_folder_durable
        with ExitStack() as held:
            files: list[File] = []
            unsynced = self.segments.since(from_offset)
            for segment in unsynced[:_SEGMENTS_PER_SYNC]:
                segment.write_out()
                files += [held.enter_context(each.held()) for each in segment.cached_files()]
                files += _opened(held, segment.transactions.open_for_sync())
            if sync_folder:
                files += _opened(held, partition_metadata_file.open_for_sync(disk, folder))
            release = held.pop_all().close
        self._names_synced = self.is_folder_durable = True

        def sync() -> None:
            for file in files:
                file.sync()
            if sync_names:
                disk.sync_directory(folder)
            if sync_folder:
                disk.sync_directory(folder.parent)

        rest = unsynced[_SEGMENTS_PER_SYNC:]
        up_to_offset = rest[0].base_offset if rest else self.end_offset
        return SyncJob(sync, release, up_to_offset, is_all=not rest)

    def names_changed(self) -> None:
        """Make the next sync cover the directory, since a file was created in it."""
        self._names_synced = False

    def renamed(self, folder: PurePath) -> LocalLog:
        """Return this log, closed and durable, after its directory was renamed."""
        home = replace(self.home, folder=folder)
        segments = [
            LogSegment(home, each.base_offset, size=each.size, created_ms=each.created_ms)
            for each in self.segments
        ]
        return LocalLog(
            home, LogSegments(segments), end_offset=self.end_offset, removals=self._removals
        )

    def close(self) -> None:
        for segment in self.segments:
            segment.forget()

    def _end_within(self, segment: LogSegment, index: int, bound_offset: int) -> int:
        """Return the position in a segment where a bound offset ends it."""
        if bound_offset >= self._following(index):
            return segment.size
        if self._bound and self._bound[0] == bound_offset and self._bound[1] is segment:
            return self._bound[2]
        placed = segment.position_range(bound_offset)
        position = placed[0] if placed else segment.size
        self._bound = (bound_offset, segment, position)
        return position

    def _offset_after(self, index: int, position: int) -> int:
        """Return an offset above all records before the position; close to it, not exact."""
        indexed = self.segments[index].offset_index.offset_at_or_after(position)
        return self._following(index) if indexed is None else indexed

    def _following(self, index: int) -> int:
        """Return the upper bound of a segment's offsets."""
        if index + 1 < len(self.segments):
            return self.segments[index + 1].base_offset
        return self.end_offset

    def _rename_deleted(self, segment: LogSegment) -> list[PurePath]:
        renamed: list[PurePath] = []
        for kind in SEGMENT_KINDS:
            path = path_of(self.home.folder, segment.base_offset, kind)
            if self.home.disk.status(path) is not None:
                target = path.with_name(path.name + DELETED)
                self.home.disk.rename(path, target)
                renamed.append(target)
        segment.forget()
        return renamed

    def drop_tail(self, segments: Sequence[LogSegment]) -> None:
        """Delete segments at the end of the log immediately.

        The last one first, with the directory synced. Otherwise a power cut could bring one back
        after a gap, and reused offsets would identify two records.
        """
        for segment in reversed(segments):
            self.segments.remove([segment])
            segment.forget()
            for kind in SEGMENT_KINDS:
                self.home.disk.remove(path_of(self.home.folder, segment.base_offset, kind))
        if segments:
            self.home.disk.sync_directory(self.home.folder)


def _opened(held: ExitStack, file: File | None) -> list[File]:
    """Return the file, if any, and close it together with the other held files."""
    if file is None:
        return []
    held.callback(file.close)
    return [file]
