"""UnifiedLog: a partition's log, leader epochs, producer state, watermarks.

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

# Module constants, because each access to an enum member is a lookup.
_HIGH_WATERMARK: Final = ReadBound.HIGH_WATERMARK
_LAST_STABLE: Final = ReadBound.LAST_STABLE


class UnifiedLog:
    """Append to, read, truncate and trim a partition, on the loop's thread only."""

    def __init__(self, parts: LogParts, *, executor: Executor, events: LogEvents) -> None:
        self.partition = parts.partition
        self.producers = parts.producers
        self.epochs = parts.epochs
        self.log_start_offset = parts.log_start_offset
        self.first_dirty_offset = parts.first_dirty_offset
        self.high_watermark = parts.log_start_offset
        self.failure: StorageError | None = None
        # The future log: the copy in another log directory that will replace this one.
        self.future: UnifiedLog | None = None
        self.settings = parts.settings
        self._executor = executor
        self._use_local_log(parts.local_log, recovery_point=parts.recovery_point, events=events)
        self._resting_end = parts.local_log.end_offset if parts.is_at_rest else None
        self.is_discarded = False
        self._dirty_since_ms: int | None = None

    def _use_local_log(
        self, local_log: LocalLog, *, recovery_point: int, events: LogEvents
    ) -> None:
        self.local_log = local_log
        self._events = events
        self._flushing = LogFlusher(
            local_log,
            self.epochs,
            executor=self._executor,
            recovery_point=recovery_point,
            segments_flushed=events.segments_flushed,
            failed=self._flush_failed,
        )
        self._appending = LogAppender(
            local_log, self.producers, self.epochs, settings=self.settings, roll=self._roll_at
        )
        self.configure(self.settings)

    def configure(self, settings: TopicSettings) -> None:
        """Apply new settings immediately; some take effect with the next segment."""
        self.settings = settings
        self._may_need_preparation = may_need_preparation(settings)
        self._defers_appends = settings.flush_messages < LONG_MAX or always_needs_preparation(
            settings
        )
        self._appending.configure(settings)
        self.local_log.home.configure(settings)

    @property
    def folder(self) -> PurePath:
        return self.local_log.home.folder

    @property
    def end_offset(self) -> int:
        return self.local_log.end_offset

    @property
    def recovery_point(self) -> int:
        """Offset below which everything would survive a power cut."""
        return self._flushing.recovery_point

    @property
    def size_bytes(self) -> int:
        return self.local_log.segments.size_bytes

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
        """Append one batch after stamping offset and leader epoch into it.

        With `may_defer`, raise `ValidationDeferred` if the batch should be prepared on a thread.
        """
        if self.failure is not None:
            raise self.failure
        try:
            return self._appending.as_leader(batch, leader_epoch, now_ms, origin, may_defer)
        except StorageError as error:
            self._events.failed(error)
            raise

    def needs_preparation(self, batch: Buffer, *, is_waiting: bool = False) -> bool:
        """Whether to prepare a client's batch on a thread with `prepare_batch`.

        A batch that waits for its turn anyway is prepared whenever it has to be decompressed.
        """
        return self._may_need_preparation and needs_preparation(
            batch, self.settings, is_waiting=is_waiting
        )

    def append_prepared(
        self, prepared: PreparedBatch, *, leader_epoch: int, now_ms: int
    ) -> LogAppendInfo:
        """Append a client's batch that `prepare_batch` has validated."""
        with self._fencing():
            return self._appending.as_prepared(prepared, leader_epoch, now_ms)

    def append_as_follower(self, content: Buffer, *, leader_epoch: int, now_ms: int) -> int:
        """Append the complete batches of fetched content; return the bytes appended."""
        with self._fencing():
            return self._appending.as_follower(content, leader_epoch, now_ms)

    def read(
        self, offset: int, *, max_bytes: int, bound: ReadBound, at_least_one: bool = True
    ) -> LogRead:
        """Return the bytes from an offset on as a file range, without reading them.

        An offset between the bound and the log end is not an error and yields nothing (HW-7).
        """
        if not self.log_start_offset <= offset <= self.end_offset:
            self.check_offset(offset)
        committed_only = bound is _LAST_STABLE
        bound_offset = self._bound_offset(bound)
        if offset >= bound_offset:
            return LogRead(None, [] if committed_only else None)
        if self.failure is not None:
            raise self.failure
        # Not `_fencing`: creating a context manager per read costs as much as all the rest.
        try:
            found = self.local_log.read(
                offset, max_bytes=max_bytes, bound_offset=bound_offset, at_least_one=at_least_one
            )
            if not committed_only:
                return LogRead(found, None)
            return LogRead(found, self._aborted_within(offset, found) if found else [])
        except StorageError as error:
            self._events.failed(error)
            raise

    def check_offset(self, offset: int) -> None:
        """Raise `OffsetOutOfRange` unless the offset is within the log (HW-7)."""
        if not self.log_start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} of {self.partition} is not within "
                f"{self.log_start_offset} to {self.end_offset}"
            )

    def first_since(self, timestamp: int) -> TimedOffset | None:
        """Return the first record whose timestamp is at least this, or None (LO-2)."""
        with self._fencing():
            return first_since(self.local_log.segments, timestamp, self.log_start_offset)

    def with_largest_timestamp(self) -> TimedOffset | None:
        """Return the first record with the largest timestamp; None if empty (LO-1)."""
        with self._fencing():
            return with_largest_timestamp(self.local_log.segments, self.log_start_offset)

    def raise_high_watermark(self, offset: int) -> int:
        """Raise the high watermark, at most to the log end; never lower it (HW-1)."""
        bounded = min(offset, self.end_offset)
        if bounded > self.high_watermark:
            self.high_watermark = bounded
            self.producers.high_watermark_moved(bounded)
        return self.high_watermark

    def begin_epoch(self, epoch: int) -> None:
        """Assign a new leader epoch at the log end, before its first batch (EP-1)."""
        self.epochs.assign(epoch, self.end_offset)

    def delete_records_below(self, offset: int) -> None:
        """Raise the log start offset; retention deletes the segments later (DR-1)."""
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(
                f"records of {self.partition} can be deleted up to the high watermark "
                f"{self.high_watermark}, not up to {offset}"
            )
        self.raise_log_start(offset)

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start offset; it never moves back (LSO-3)."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.high_watermark = max(self.high_watermark, offset)
            self.epochs.truncate_from_start(offset)

    def apply_retention(self, now_ms: int) -> int:
        """Delete expired segments; return how many (RT-1 to RT-5)."""
        with self._fencing():
            segments = list(self.local_log.segments)
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
                self.raise_log_start(self.local_log.segments[count].base_offset)
                self.local_log.drop(
                    segments[:count], now_ms=now_ms, delay_ms=self.settings.file_delete_delay_ms
                )
                self._remove_stray_snapshots()
            return count

    def swap_in(self, group: CleanedGroup, *, now_ms: int) -> None:
        """Replace segments with the compacted segment of a finished cleaning."""
        with self._changing():
            self.local_log.swap_in(
                group, now_ms=now_ms, delay_ms=self.settings.file_delete_delay_ms
            )
            self._remove_stray_snapshots()

    def flush_if_old(self, now_ms: int) -> None:
        """Flush if the oldest unflushed record is older than `flush.ms`."""
        if self.end_offset == self.recovery_point:
            self._dirty_since_ms = None
        elif self._dirty_since_ms is None or self._dirty_since_ms > now_ms:
            # The clock may have been set back; do not wait for it to catch up.
            self._dirty_since_ms = now_ms
        if (
            self._dirty_since_ms is not None
            and now_ms - self._dirty_since_ms >= self.settings.flush_ms
        ):
            self._dirty_since_ms = None
            self.flush()

    @property
    def needs_flush(self) -> bool:
        """Whether `flush.messages` requires a flush, for which responses wait."""
        return self.end_offset - self.recovery_point >= self.settings.flush_messages

    @property
    def defers_appends(self) -> bool:
        """Whether most appends wait, for a flush or for a thread that opens the batch."""
        return self._defers_appends

    def roll(self, now_ms: int) -> None:
        """Roll a new segment and flush the previous ones in the background."""
        with self._fencing():
            self._roll_at(now_ms, self.end_offset)

    def flush(self, then: Waiter | None = None) -> None:
        """Flush everything appended so far, off the event loop; then call back."""
        if self.failure is not None:
            if then is not None:
                then(self.failure)
        else:
            # Index entries are written now, before the job syncs them.
            with self._fencing():
                self._flushing.start(then)

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Truncate the log to an offset, where it diverges from the leader's (EP-6).

        Batches are removed as a whole: if the offset is inside a batch or a gap, the log then ends
        where the previous batch ends, and the missing part is fetched again.
        """
        if offset >= self.end_offset:
            # Also drop an epoch that this broker began as leader and never wrote in, or it would be
            # compared with the leader's epochs forever.
            self.epochs.truncate_from_end(offset)
            return False
        if offset < self.local_log.segments.first.base_offset:
            self.start_over(offset, now_ms=now_ms)
            return True
        with self._changing():
            offset, base_offset = self.local_log.end_before(offset)
        with self._cutting_future() as future:
            if future is not None:
                # Not to the offset in the call: a copy that begins behind it would end there,
                # beyond the end of this log.
                future.truncate_to(offset, now_ms=now_ms)
        with self._changing():
            # Lower to the segment's base, not to the offset: if the offset becomes the base of a
            # new segment, recovery would skip this one, where old bytes may follow if the
            # truncation was lost.
            self._lower_recovery_point(base_offset)
            self._lower_first_dirty(offset)
            self.local_log.truncate_to(offset)
            self.epochs.truncate_from_end(offset)
            self._lower_log_start(offset)
            self.high_watermark = min(self.high_watermark, offset)
            producer_replay.reload(
                self.producers,
                self.local_log,
                log_start_offset=self.log_start_offset,
                trusted_up_to=offset,
            )
        return True

    def start_over(self, offset: int, *, now_ms: int) -> None:
        """truncateFullyAndStartAt: continue, empty, at an offset (EP-7)."""
        with self._cutting_future() as future:
            if future is not None:
                future.start_over(offset, now_ms=now_ms)
        with self._changing():
            # The next start must check all it finds.
            self._lower_recovery_point(0)
            self._lower_first_dirty(None)
            producer_snapshot.remove_all(self.local_log.home.disk, self.folder)
            self.local_log.start_over(offset, now_ms=now_ms)
            self.epochs.clear()
            self.producers.clear()
            self._lower_log_start(offset)
            self.log_start_offset = self.high_watermark = offset

    @property
    def is_flushing(self) -> bool:
        return self._flushing.is_running

    def skip_to(self, offset: int, *, now_ms: int) -> None:
        """For a future log: advance the log end over an offset gap."""
        with self._changing():
            self._roll_at(now_ms, offset)
            self.local_log.end_offset = offset

    def close_as_copy_of(self, original: UnifiedLog, *, now_ms: int) -> None:
        """For a future log: take over the current log's state, flush and close it.

        Producers without a batch in the log are known to the original only. They are written to the
        snapshot at the start of a new segment, which stays valid after a crash. No flush may be
        running.
        """
        with self._fencing():
            self.producers.load(original.producers.entries())
            self.epochs.replace(original.epochs.entries())
            self.log_start_offset = original.log_start_offset
            self.high_watermark = original.high_watermark
            self.first_dirty_offset = original.first_dirty_offset
            self._start_segment(now_ms, self.end_offset)
            self.local_log.segments.active.trim()
            self._flushing.run_here()
            self.local_log.close()

    def move_to(self, local_log: LocalLog, events: LogEvents) -> None:
        """Continue in another directory, where the whole log is already durable.

        The log object and its state in memory stay the same; nothing is read again.
        """
        former, flushing = self.local_log, self._flushing
        # Invalidates work in progress on the former files, such as a cleaning.
        local_log.truncations = former.truncations + 1
        self.future = None
        self._resting_end = None
        self._use_local_log(local_log, recovery_point=local_log.end_offset, events=events)
        former.close()
        flushing.retire()

    def close(self) -> None:
        """Flush and close the files. No flush may be running."""
        with self._fencing():
            if not self._is_untouched():
                self.local_log.segments.active.seal()
                self._save_producers(self.end_offset)
                self._flushing.run_here()
            self.local_log.segments.active.trim()
            self.local_log.close()

    def _is_untouched(self) -> bool:
        """Return whether nothing changed since the last clean shutdown or creation.

        Most of ten thousand partitions are idle, and a shutdown that synced each would take
        minutes.
        """
        if self.local_log.truncations:
            return False
        if self.end_offset == 0:
            return True
        return (
            self.end_offset == self._resting_end == self.recovery_point
            and not self.epochs.unsaved
            and not self.local_log.segments.active.has_new_indexes
        )

    def fence(self, error: StorageError) -> None:
        """Take the log offline after a disk failure: refuse all calls and touch no files."""
        self.failure = self.failure or error
        self._flushing.stop(error)

    def discard(self) -> None:
        """Close the files without a flush, because the partition is being deleted.

        Later calls on this log fail, but not as a failure of the disk: its files have left their
        directory, and files there with the same names belong to a re-created topic.
        """
        self.is_discarded = True
        self.fence(StorageError(f"{self.partition} was deleted"))
        self.local_log.close()

    @contextmanager
    def _fencing(self) -> Iterator[None]:
        """Refuse work in an offline log directory, and report failures to it."""
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except StorageError as error:
            self._events.failed(error)
            raise

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """For changes that must complete: even lack of descriptors fails the log."""
        with self._fencing():
            try:
                yield
            except TooManyOpenFiles as error:
                raise StorageError(
                    f"{self.partition} could not complete a change: {error}"
                ) from error

    @contextmanager
    def _cutting_future(self) -> Iterator[UnifiedLog | None]:
        """Truncate the future log before other records replace the truncated ones.

        If its disk fails, that log directory goes offline, and the copy is checked before further
        use.
        """
        with suppress(StorageError):
            yield self.future

    def _bound_offset(self, bound: ReadBound) -> int:
        if bound is _HIGH_WATERMARK:
            return self.high_watermark
        return self.last_stable_offset if bound is _LAST_STABLE else self.end_offset

    def _aborted_within(self, offset: int, found: FileRange) -> list[AbortedTransaction]:
        try:
            return self.local_log.aborted_within(offset, found)
        except CorruptFile as error:
            # Not a disk failure: only read_committed fetches of this log fail.
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
        if not self.is_discarded:
            self._events.failed(error)

    def _roll_at(self, now_ms: int, base_offset: int) -> None:
        self._start_segment(now_ms, base_offset)
        # If descriptors have run out, the next flush covers this segment as well.
        with suppress(TooManyOpenFiles):
            self.flush()

    def _start_segment(self, now_ms: int, base_offset: int) -> None:
        active = self.local_log.segments.active
        if active.size and self.recovery_point >= self.end_offset:
            # All was flushed, but sealing adds the segment's last index entry; and once the
            # recovery point is the base of the next segment, recovery would trust this one
            # unchecked.
            self._lower_recovery_point(active.base_offset)
        self.local_log.roll(now_ms, base_offset=base_offset)
        self._save_producers(base_offset)

    def _remove_stray_snapshots(self) -> None:
        """Delete the producer snapshots of deleted segments, or they would pile up."""
        producer_snapshot.remove_stray_snapshots(
            self.local_log.home.disk,
            self.folder,
            {segment.base_offset: None for segment in self.local_log.segments},
        )

    def _save_producers(self, offset: int) -> None:
        """Write a producer snapshot; the next flush syncs it."""
        entries = self.producers.entries()
        self._flushing.include(
            producer_snapshot.write(self.local_log.home.disk, self.folder, offset, entries)
        )
