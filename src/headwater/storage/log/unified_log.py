"""One partition's log with all its rules: what may be appended, who may read how far.

Offsets, from low to high: log start <= last stable offset <= high watermark <= log end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePath
from typing import Final

from headwater.common.exceptions import (
    CorruptFile,
    OffsetOutOfRange,
    StorageError,
    TooManyOpenFiles,
    UnreadableLog,
)
from headwater.common.settings.setting_types import LONG_MAX
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_header import Buffer
from headwater.records.batch_preparation import (
    PreparedBatch,
    always_needs_preparation,
    may_need_preparation,
    needs_preparation,
)
from headwater.storage.cleaner.cleaning_job import CleanedGroup
from headwater.storage.index.transaction_index import AbortedTransaction
from headwater.storage.io.executor import Executor
from headwater.storage.io.file_range import FileRange
from headwater.storage.log.append import LogAppender, LogAppendInfo
from headwater.storage.log.flush import LogFlusher, Waiter
from headwater.storage.log.local_log import LocalLog
from headwater.storage.log.log_parts import LogEvents as LogEvents
from headwater.storage.log.log_parts import LogParts as LogParts
from headwater.storage.log.log_parts import LogRead as LogRead
from headwater.storage.log.log_parts import ReadBound as ReadBound
from headwater.storage.log.retention import expired_count
from headwater.storage.log.timestamp_lookup import TimedOffset, first_since, with_largest_timestamp
from headwater.storage.producer_state import producer_replay, producer_snapshot
from headwater.storage.producer_state.producer_state_manager import AppendOrigin

# Names, because a member of an enumeration is looked up at every mention.
_HIGH_WATERMARK: Final = ReadBound.HIGH_WATERMARK
_LAST_STABLE: Final = ReadBound.LAST_STABLE


class UnifiedLog:
    """Append, read, cut and trim one partition. All calls come from the loop's thread."""

    def __init__(self, parts: LogParts, *, executor: Executor, events: LogEvents) -> None:
        self.partition = parts.partition
        self.producers = parts.producers
        self.epochs = parts.epochs
        self.log_start_offset = parts.log_start_offset
        self.first_dirty_offset = parts.first_dirty_offset
        self.high_watermark = parts.log_start_offset
        self.failure: StorageError | None = None
        # The copy in another directory that is to take its place (see `log_dir_moves`).
        self.future: UnifiedLog | None = None
        self.settings = parts.settings
        self._executor = executor
        self._settle_in(parts.body, recovery_point=parts.recovery_point, events=events)
        self._resting_end = parts.body.end_offset if parts.is_at_rest else None
        self.is_abandoned = False
        self._dirty_since_ms: int | None = None

    def _settle_in(self, body: LocalLog, *, recovery_point: int, events: LogEvents) -> None:
        self.body = body
        self._events = events
        self._flushing = LogFlusher(
            body,
            self.epochs,
            executor=self._executor,
            recovery_point=recovery_point,
            segments_flushed=events.segments_flushed,
            failed=self._flush_failed,
        )
        self._appending = LogAppender(
            body, self.producers, self.epochs, settings=self.settings, roll=self._roll_at
        )
        self.configure(self.settings)

    def configure(self, settings: TopicSettings) -> None:
        """Take new settings at once, as far as they do not concern how a segment is made."""
        self.settings = settings
        self._may_need_preparation = may_need_preparation(settings)
        self._takes_its_time = settings.flush_messages < LONG_MAX or always_needs_preparation(
            settings
        )
        self._appending.configure(settings)
        self.body.home.configure(settings)

    @property
    def folder(self) -> PurePath:
        return self.body.home.folder

    @property
    def end_offset(self) -> int:
        return self.body.end_offset

    @property
    def recovery_point(self) -> int:
        """Everything below this offset would survive a power cut."""
        return self._flushing.recovery_point

    @property
    def size_bytes(self) -> int:
        return self.body.segments.size_bytes

    @property
    def last_stable_offset(self) -> int:
        return self.producers.last_stable_offset(
            high_watermark=self.high_watermark, log_start_offset=self.log_start_offset
        )

    def append_as_leader(
        self,
        batch: bytearray | memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        may_defer: bool = False,
    ) -> LogAppendInfo:
        """Append one batch, which is stamped in place with its offset and epoch.

        With `may_defer`, `ValidationDeferred` if the batch is rather to be prepared on a thread.
        """
        if self.failure is not None:
            raise self.failure
        try:
            return self._appending.as_leader(batch, leader_epoch, now_ms, origin, may_defer)
        except StorageError as error:
            self._events.failed(error)
            raise

    def needs_preparation(self, batch: Buffer, *, is_waiting: bool = False) -> bool:
        """Whether a client's batch is to be prepared on a thread, by `prepare_batch`, before it is
        appended. One that waits for its turn anyway is, whenever it has to be decompressed.
        """
        return self._may_need_preparation and needs_preparation(
            batch, self.settings, is_waiting=is_waiting
        )

    def append_prepared(
        self, prepared: PreparedBatch, *, leader_epoch: int, now_ms: int
    ) -> LogAppendInfo:
        """Append a client's batch that `prepare_batch` has checked, under settings then or now."""
        with self._fencing():
            return self._appending.as_prepared(prepared, leader_epoch, now_ms)

    def append_as_follower(self, content: Buffer, *, leader_epoch: int, now_ms: int) -> int:
        """Append the whole batches of a fetched run as they are; how many bytes were taken."""
        with self._fencing():
            return self._appending.as_follower(content, leader_epoch, now_ms)

    def read(
        self, offset: int, *, max_bytes: int, bound: ReadBound, at_least_one: bool = True
    ) -> LogRead:
        """The bytes from an offset on, as a range of a file; nothing is read here.

        An offset between the bound and the log's end is no error and gives nothing (HW-7).
        """
        if not self.log_start_offset <= offset <= self.end_offset:
            self.check_offset(offset)
        committed_only = bound is _LAST_STABLE
        bound_offset = self._bound_offset(bound)
        if offset >= bound_offset:
            return LogRead(None, [] if committed_only else None)
        if self.failure is not None:
            raise self.failure
        # Not `_fencing`, which is made anew for each read and costs as much as all the rest.
        try:
            found = self.body.read(
                offset, max_bytes=max_bytes, bound_offset=bound_offset, at_least_one=at_least_one
            )
            if not committed_only:
                return LogRead(found, None)
            return LogRead(found, self._aborted_within(offset, found) if found else [])
        except StorageError as error:
            self._events.failed(error)
            raise

    def check_offset(self, offset: int) -> None:
        """`OffsetOutOfRange` for what nobody can read from here (HW-7)."""
        if not self.log_start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} of {self.partition} is not within "
                f"{self.log_start_offset} to {self.end_offset}"
            )

    def first_since(self, timestamp: int) -> TimedOffset | None:
        """The first record whose timestamp is at least this, or None (LO-2)."""
        with self._fencing():
            return first_since(self.body.segments, timestamp, self.log_start_offset)

    def with_largest_timestamp(self) -> TimedOffset | None:
        """The first record with the largest timestamp of all, or None in an empty log (LO-1)."""
        with self._fencing():
            return with_largest_timestamp(self.body.segments, self.log_start_offset)

    def raise_high_watermark(self, offset: int) -> int:
        """Let readers see up to an offset; bounded by the log, and never going back (HW-1)."""
        bounded = min(offset, self.end_offset)
        if bounded > self.high_watermark:
            self.high_watermark = bounded
            self.producers.high_watermark_moved(bounded)
        return self.high_watermark

    def begin_epoch(self, epoch: int) -> None:
        """Note that we lead from here on, even before the first batch of the epoch (EP-1)."""
        self.epochs.assign(epoch, self.end_offset)

    def delete_records_below(self, offset: int) -> None:
        """Move the log's start; the segments below it go with the next retention pass (DR-1)."""
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(
                f"records of {self.partition} can be deleted up to the high watermark "
                f"{self.high_watermark}, not up to {offset}"
            )
        self.raise_log_start(offset)

    def raise_log_start(self, offset: int) -> None:
        """LSO-3: the start only moves up."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.high_watermark = max(self.high_watermark, offset)
            self.epochs.truncate_from_start(offset)

    def apply_retention(self, now_ms: int) -> int:
        """Drop the segments that have outlived the topic's limits; how many (RT-1 to RT-5)."""
        with self._fencing():
            segments = list(self.body.segments)
            count = expired_count(
                segments,
                self.settings,
                log_start_offset=self.log_start_offset,
                high_watermark=self.high_watermark,
                end_offset=self.end_offset,
                now_ms=now_ms,
            )
            if count == len(segments):
                self.roll(now_ms)
            if count:
                self.raise_log_start(self.body.segments[count].base_offset)
                self.body.drop(
                    segments[:count], now_ms=now_ms, delay_ms=self.settings.file_delete_delay_ms
                )
                self._remove_stray_snapshots()
            return count

    def swap_in(self, group: CleanedGroup, *, now_ms: int) -> None:
        """Take over one segment of a finished compaction."""
        with self._changing():
            self.body.swap_in(group, now_ms=now_ms, delay_ms=self.settings.file_delete_delay_ms)
            self._remove_stray_snapshots()

    def flush_if_old(self, now_ms: int) -> None:
        """Flush a log whose oldest unflushed record has waited for `flush.ms`."""
        if self.end_offset == self.recovery_point:
            self._dirty_since_ms = None
        elif self._dirty_since_ms is None or self._dirty_since_ms > now_ms:
            # The clock may have been set back, and nobody waits for it to catch up.
            self._dirty_since_ms = now_ms
        if (
            self._dirty_since_ms is not None
            and now_ms - self._dirty_since_ms >= self.settings.flush_ms
        ):
            self._dirty_since_ms = None
            self.flush()

    @property
    def needs_flush(self) -> bool:
        """Whether `flush.messages` records wait to be flushed; their answer then waits too."""
        return self.end_offset - self.recovery_point >= self.settings.flush_messages

    @property
    def takes_its_time(self) -> bool:
        """Whether most appends have to wait: for a flush, or for a thread that opens the batch."""
        return self._takes_its_time

    def roll(self, now_ms: int) -> None:
        """Start a new segment; what came before it is made durable in the background."""
        with self._fencing():
            self._roll_at(now_ms, self.end_offset)

    def flush(self, then: Waiter | None = None) -> None:
        """Make everything that is in the log now durable, off the loop; then call back."""
        if self.failure is not None:
            if then is not None:
                then(self.failure)
        else:
            # Index entries are written here and now, before the job syncs them.
            with self._fencing():
                self._flushing.start(then)

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Cut the log at an offset, because its leader has something else there (EP-6).

        A batch goes as a whole: where the offset lies amid one, or amid offsets that nobody has,
        the log then ends where the batch before ends, and all of what is missing is fetched again.
        """
        if offset >= self.end_offset:
            # An epoch that this broker began as a leader and never wrote in must go all the same,
            # or it would be compared with the leader's for ever.
            self.epochs.truncate_from_end(offset)
            return False
        if offset < self.body.segments.first.base_offset:
            self.start_over(offset, now_ms=now_ms)
            return True
        with self._cutting_future() as future:
            if future is not None:
                future.truncate_to(offset, now_ms=now_ms)
        with self._changing():
            offset, base_offset = self.body.end_before(offset)
            # Not to the offset: if that becomes the base of a new segment, the start after a crash
            # would not look into this one, where old bytes may lie behind a cut that got lost.
            self._lower_recovery_point(base_offset)
            self._lower_first_dirty(offset)
            self.body.truncate_to(offset)
            self.epochs.truncate_from_end(offset)
            self._lower_log_start(offset)
            self.high_watermark = min(self.high_watermark, offset)
            producer_replay.reload(
                self.producers,
                self.body,
                log_start_offset=self.log_start_offset,
                trusted_up_to=offset,
            )
        return True

    def start_over(self, offset: int, *, now_ms: int) -> None:
        """Drop everything and go on, empty, at an offset (EP-7)."""
        with self._cutting_future() as future:
            if future is not None:
                future.start_over(offset, now_ms=now_ms)
        with self._changing():
            # Whatever the next start finds, it has to look at all of it.
            self._lower_recovery_point(0)
            self._lower_first_dirty(None)
            producer_snapshot.remove_all(self.body.home.disk, self.folder)
            self.body.start_over(offset, now_ms=now_ms)
            self.epochs.clear()
            self.producers.clear()
            self._lower_log_start(offset)
            self.log_start_offset = self.high_watermark = offset

    @property
    def is_flushing(self) -> bool:
        return self._flushing.is_running

    def skip_to(self, offset: int, *, now_ms: int) -> None:
        """As a copy: end where the original ends, which has nothing more up to there."""
        with self._changing():
            self._roll_at(now_ms, offset)
            self.body.end_offset = offset

    def close_as_copy_of(self, original: UnifiedLog, *, now_ms: int) -> None:
        """Know all that the original knows, make it durable, and let go of the files.

        Producers that have left nothing in the log are known to the original only. They stand in
        the snapshot with which a new segment begins, where a crash does not make it doubtful. No
        flush may be under way.
        """
        with self._fencing():
            self.producers.load(original.producers.entries())
            self.epochs.replace(original.epochs.entries())
            self.log_start_offset = original.log_start_offset
            self.high_watermark = original.high_watermark
            self.first_dirty_offset = original.first_dirty_offset
            self._begin_segment(now_ms, self.end_offset)
            self.body.segments.active.trim()
            self._flushing.run_here()
            self.body.close()

    def move_to(self, body: LocalLog, events: LogEvents) -> None:
        """Go on in another directory, where all of it lies durable already.

        It stays the same log to whoever has it in hand: nothing of what it knows is read again.
        """
        former, flushing = self.body, self._flushing
        # Whoever worked on the former files must not take his work for up to date.
        body.truncations = former.truncations + 1
        self.future = None
        self._resting_end = None
        self._settle_in(body, recovery_point=body.end_offset, events=events)
        former.close()
        flushing.retire()

    def close(self) -> None:
        """Make everything durable and let go of the files. No flush may be under way."""
        with self._fencing():
            if not self._is_untouched():
                self.body.segments.active.seal()
                self._save_producers(self.end_offset)
                self._flushing.run_here()
            self.body.segments.active.trim()
            self.body.close()

    def _is_untouched(self) -> bool:
        """Nothing to lose since the last clean stop, or since the log was made.

        Most of ten thousand partitions are idle, and a stop that synced each would take minutes.
        """
        if self.body.truncations:
            return False
        if self.end_offset == 0:
            return True
        return (
            self.end_offset == self._resting_end == self.recovery_point
            and not self.epochs.unsaved
            and not self.body.segments.active.has_new_indexes
        )

    def fence(self, error: StorageError) -> None:
        """The disk has failed: refuse everything from now on, and touch nothing."""
        self.failure = self.failure or error
        self._flushing.stop(error)

    def abandon(self) -> None:
        """Let go of the files without a flush, because the partition is to be deleted.

        Whoever still has the log in hand is refused, and for no fault of the disk: its files have
        gone from their folder, and what lies there under the same names is a namesake's.
        """
        self.is_abandoned = True
        self.fence(StorageError(f"{self.partition} was deleted"))
        self.body.close()

    @contextmanager
    def _fencing(self) -> Iterator[None]:
        """Nothing is done in a failed directory, and a failure here is told to it."""
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except StorageError as error:
            self._events.failed(error)
            raise

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """For what cannot be left half done: even the lack of a descriptor ends the log then."""
        with self._fencing():
            try:
                yield
            except TooManyOpenFiles as error:
                raise StorageError(f"{self.partition} is half changed: {error}") from error

    @contextmanager
    def _cutting_future(self) -> Iterator[UnifiedLog | None]:
        """What is cut off here must be gone there before something else comes in its place.

        A disk that fails over it is fenced, and the copy is looked at before it is used again.
        """
        with suppress(StorageError):
            yield self.future

    def _bound_offset(self, bound: ReadBound) -> int:
        if bound is _HIGH_WATERMARK:
            return self.high_watermark
        return self.last_stable_offset if bound is _LAST_STABLE else self.end_offset

    def _aborted_within(self, offset: int, found: FileRange) -> list[AbortedTransaction]:
        try:
            return self.body.aborted_within(offset, found)
        except CorruptFile as error:
            # No failure of the disk: readers of committed data have to do without this log alone.
            raise UnreadableLog(f"{self.partition}: {error}") from error

    def _lower_recovery_point(self, offset: int) -> None:
        if self._flushing.lower(offset):
            self._events.recovery_point_lowered()

    def _lower_first_dirty(self, offset: int | None) -> None:
        if self.first_dirty_offset is not None and (
            offset is None or offset < self.first_dirty_offset
        ):
            self.first_dirty_offset = offset
            self._events.first_dirty_lowered()

    def _lower_log_start(self, offset: int) -> None:
        if offset < self.log_start_offset:
            self.log_start_offset = offset
            self._events.log_start_lowered()

    def _flush_failed(self, error: StorageError) -> None:
        if not self.is_abandoned:
            self._events.failed(error)

    def _roll_at(self, now_ms: int, base_offset: int) -> None:
        self._begin_segment(now_ms, base_offset)
        # Without a descriptor for it, the next flush comes for this segment as well.
        with suppress(TooManyOpenFiles):
            self.flush()

    def _begin_segment(self, now_ms: int, base_offset: int) -> None:
        active = self.body.segments.active
        if active.size and self.recovery_point >= self.end_offset:
            # All was flushed, but now the segment gets its last index entry; and as soon as the
            # recovery point is the base of the next one, a start would take it as it is.
            self._lower_recovery_point(active.base_offset)
        self.body.roll(now_ms, base_offset=base_offset)
        self._save_producers(base_offset)

    def _remove_stray_snapshots(self) -> None:
        """Snapshots go with the segments that began where they stand, or they would pile up."""
        producer_snapshot.remove_strays(
            self.body.home.disk,
            self.folder,
            {segment.base_offset: None for segment in self.body.segments},
        )

    def _save_producers(self, offset: int) -> None:
        """Snapshot the producers; synced with the next flush, and replayed if that never comes."""
        entries = self.producers.entries()
        self._flushing.include(
            producer_snapshot.write(self.body.home.disk, self.folder, offset, entries)
        )
