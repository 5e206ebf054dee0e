"""The bytes of one log: segments that are appended to, read, rolled, cut and dropped.

It knows offsets and positions but neither producers nor epochs nor watermarks; those rules live in
`unified_log`. It is used from one thread. Only the jobs that it hands out run elsewhere, and
they touch nothing but files that are held open for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import NamedTuple

from headwater.common.ids import NO_TIMESTAMP
from headwater.records.batch_header import BatchHeader, Buffer
from headwater.records.kernel import last_header
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

# A sync holds some files of each. Mostly there are one or two, but in a directory that has lost its
# checkpoints nothing counts as flushed.
_SEGMENTS_PER_SYNC = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RollRule:
    """When an append goes into a new segment; each segment takes its jitter off `segment_ms`."""

    segment_bytes: int
    segment_ms: int


class SyncJob(NamedTuple):
    """What makes content durable up to an offset, and what lets go of the files afterwards."""

    sync: Callable[[], None]
    release: Callable[[], None]
    up_to_offset: int
    is_all: bool


class LocalLog:
    """Segments and the offset that the next batch gets."""

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
        # A new folder is not: a power cut may take it until the first flush has synced its name.
        self.is_folder_durable = is_folder_durable
        # Goes up with every cut at the end, so that work done meanwhile can be told stale.
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
        """RL-1. Time alone never rolls: it takes an append to make a segment old.

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
        """Start a new active segment (RL-2), at the end of the log unless a follower leaves a gap.

        An empty active segment at the same base is made anew (RL-3).
        """
        base_offset = self.end_offset if base_offset is None else base_offset
        assert base_offset >= self.end_offset, "segments do not overlap"
        active = self.segments.active
        active.seal()
        active.trim()
        # Made before the old one goes: if there is no descriptor for it, nothing has happened.
        segment = LogSegment.create(self.home, base_offset, created_ms=now_ms)
        if active.base_offset == base_offset:
            assert not active.size, "a segment with data ends behind its base"
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
        """The bytes from the batch that holds the offset, up to a bound; None when there are none.

        The range stays within one segment and may end amid a batch, never amid the first one.
        With `at_least_one` the first batch comes whole even when it exceeds the limit (FT-2).
        """
        segments = self.segments
        for index in range(segments.index_of(offset), len(segments)):
            segment = segments[index]
            placed = segment.place(offset)
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

    def note_read(self, found: FileRange, content: Buffer, *, truncations: int) -> None:
        """What a range held, which was not in the page cache: its reader will come back for more.

        The last batch of it is the next one that is asked for, unless it was whole. `truncations`
        is how often the log had been cut when the range was found: after a cut something else may
        lie there.
        """
        last = last_header(content)
        if last is None or not last[0] or truncations != self.truncations:
            return
        at, header = last
        segment = self.segments[self.segments.index_of(header.base_offset)]
        if segment.log is found.file and at + header.size_bytes > len(content):
            segment.expect(found.position + at, header)

    def aborted_within(self, offset: int, found: FileRange) -> list[AbortedTransaction]:
        """The aborted transactions that a reader of the range must know of (LSO-2)."""
        segments = self.segments
        index = segments.index_of(offset)
        while segments[index].log is not found.file:
            index += 1
        later = [segments[each].transactions for each in range(index, len(segments))]
        if not any(map(len, later)):
            # As in most logs; and librdkafka wants committed records where nobody says otherwise.
            return []
        upper_offset = self._offset_after(index, found.position + found.length)
        return collect_aborted(later, fetch_offset=offset, upper_offset=upper_offset)

    def recent_producer_batches(self, size_bytes: int) -> Iterator[PlacedHeader]:
        """Batches with a producer in about the last so many bytes, but no more than two segments.

        Of each producer only the last few of a stretch, as `producer_batches_since` has them.
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
        """How much lies from the batch on that holds an offset, or that follows it."""
        first, *later = self.segments.since(offset)
        placed = first.place(offset)
        here = 0 if placed is None else first.size - placed[0]
        return here + sum(segment.size for segment in later)

    def batch_at(self, offset: int) -> BatchHeader | None:
        """The batch that holds an offset, or that follows it in its segment."""
        placed = self.segments[self.segments.index_of(offset)].locate(offset)
        return None if placed is None else placed.header

    def end_before(self, offset: int) -> tuple[int, int]:
        """Where the log would end if it were cut at an offset, and the base of that segment."""
        segment = self.segments[self.segments.index_of(offset)]
        return segment.end_before(offset), segment.base_offset

    def truncate_to(self, offset: int) -> None:
        """Cut everything from the offset on, which is one that `end_before` gave."""
        self.truncations += 1
        self._bound = None
        doomed = [segment for segment in self.segments if segment.base_offset > offset]
        assert len(doomed) < len(self.segments), "a cut below the first segment starts over"
        self.drop_tail(doomed)
        self.segments.active.truncate_to(offset)
        self.end_offset = offset

    def start_over(self, offset: int, *, now_ms: int) -> None:
        """Drop all content and go on, empty, at an offset."""
        self.truncations += 1
        self._bound = None
        self.drop_tail(list(self.segments))
        self.end_offset = offset
        self.segments.add(LogSegment.create(self.home, offset, created_ms=now_ms))
        self._names_synced = False

    def drop(self, segments: Sequence[LogSegment], *, now_ms: int, delay_ms: int) -> None:
        """Take whole segments out of the log; their files go later (RT-5)."""
        self._bound = None
        for segment in segments:
            self.segments.remove([segment])
            renamed = self._rename_deleted(segment)
            self._removals.add(renamed, now_ms=now_ms, delay_ms=delay_ms)

    def swap_in(self, group: CleanedGroup, *, now_ms: int, delay_ms: int) -> None:
        """Put one compacted segment in the place of its sources, whose files go later."""
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
        """A job that makes content since an offset durable: all of it, or of so many segments.

        Where a descriptor is missing, nothing is held and nothing counts as synced.
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
        """Something else was made in the folder: the next sync covers its name as well."""
        self._names_synced = False

    def renamed(self, folder: PurePath) -> LocalLog:
        """The same log, closed and durable, after its folder got another name."""
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
        """The position in a segment at which a bound cuts it off."""
        if bound_offset >= self._following(index):
            return segment.size
        if self._bound and self._bound[0] == bound_offset and self._bound[1] is segment:
            return self._bound[2]
        placed = segment.place(bound_offset)
        position = placed[0] if placed else segment.size
        self._bound = (bound_offset, segment, position)
        return position

    def _offset_after(self, index: int, position: int) -> int:
        """An offset that no record before the position reaches; near it, not exactly at it."""
        indexed = self.segments[index].offset_index.offset_at_or_after(position)
        return self._following(index) if indexed is None else indexed

    def _following(self, index: int) -> int:
        """Where the offsets of a segment end at the latest."""
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
        """Remove segments at the end of the log, for good.

        The last goes first and the folder is synced, or a power cut could bring one back behind
        a hole, and offsets that were given anew would name two records.
        """
        for segment in reversed(segments):
            self.segments.remove([segment])
            segment.forget()
            for kind in SEGMENT_KINDS:
                self.home.disk.remove(path_of(self.home.folder, segment.base_offset, kind))
        if segments:
            self.home.disk.sync_directory(self.home.folder)


def _opened(held: ExitStack, file: File | None) -> list[File]:
    """The file, if there is one, to be closed with what else is held."""
    if file is None:
        return []
    held.callback(file.close)
    return [file]
