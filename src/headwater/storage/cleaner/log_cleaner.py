"""LogCleaner: choose logs, clean each in a child process, swap in the results.

At most `log.cleaner.threads` logs are cleaned or swapped at once, each by its own child. They share
the memory of `log.cleaner.dedupe.buffer.size` and `log.cleaner.io.buffer.size` in equal parts, as
in Kafka, and `log.cleaner.io.max.bytes.per.second` according to how many of them run.

The cleaning reads and writes its own files in a child process. Files are renamed only here, on the
event loop's thread, and only after checking again: if a log was truncated meanwhile or lost a
source segment to retention, the result is discarded. New segments are swapped in one per tick,
oldest first, because each swap syncs the directory several times.

Note: `stop` does not wait. The child is killed, its thread ends soon after, and its files are
removed there, here, or at the latest by the next start.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from headwater.common.elapsed import has_passed
from headwater.common.exceptions import (
    BatchError,
    CorruptFile,
    QueueFull,
    StorageError,
    TooManyOpenFiles,
)
from headwater.common.ids import NO_TIMESTAMP, TopicPartition
from headwater.common.ports import Random
from headwater.common.settings.storage_settings import StorageSettings
from headwater.common.settings.topic_settings import LONG_MAX
from headwater.storage.cleaner import segment_swap
from headwater.storage.cleaner.cleanable_logs import (
    CleanableRange,
    LogAge,
    SegmentAge,
    due_logs,
)
from headwater.storage.cleaner.cleaner import remove_outputs
from headwater.storage.cleaner.cleaning_job import (
    CleanedGroup,
    CleaningFailure,
    CleaningJob,
    CleaningResult,
    FailureKind,
    LiveProducer,
    ReplacedSegment,
    SourceSegment,
)
from headwater.storage.index.transaction_index import AbortedTransaction
from headwater.storage.io.executor import Executor
from headwater.storage.log.segment import LogSegment
from headwater.storage.log.unified_log import UnifiedLog
from headwater.storage.log_manager.log_manager import LogManager


class Cleaning(Protocol):
    """One cleaning, which runs once: `cleaner_process.CleanerProcess`."""

    def run(self) -> CleaningResult | CleaningFailure:
        """Clean, and block until it is done."""

    def cancel(self) -> None:
        """Make `run` return soon, or not start. Called from another thread."""

    def limit_io(self, bytes_per_second: int) -> None:
        """Change the I/O budget, also while it runs. From another thread."""


BeginCleaning = Callable[[CleaningJob], Cleaning]

_SEED_BYTES = 16


@dataclass(slots=True)
class _Swapping:
    """Finished cleaning with segments that still wait to be swapped in."""

    log: UnifiedLog
    result: CleaningResult
    groups: deque[CleanedGroup]


@dataclass(frozen=True, slots=True)
class Uncleanable:
    """Corrupt log, skipped until deleted; not a re-created topic of its name."""

    log: UnifiedLog
    reason: str


class LogCleaner:
    """Cleans the dirtiest logs, with cleanings created by `begin`.

    A cleaning may take hours, so the cleaner has its own executor, with a thread for each.
    """

    def __init__(
        self,
        directories: LogManager,
        settings: StorageSettings,
        *,
        begin: BeginCleaning,
        executor: Executor,
        rng: Random,
    ) -> None:
        self._directories = directories
        self._settings = settings
        self._begin = begin
        self._executor = executor
        self._rng = rng
        self._cleanings: dict[TopicPartition, Cleaning] = {}
        # The first one is swapped in; the others wait for it.
        self._swapping: deque[_Swapping] = deque()
        self._io_share = settings.log_cleaner_io_max_bytes_per_second
        self._checked_ms: int | None = None
        self._is_stopped = False
        self.uncleanable: dict[TopicPartition, Uncleanable] = {}
        self.last_result: CleaningResult | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a log is being cleaned, or its segments swapped in."""
        return self.busy_count > 0

    @property
    def busy_count(self) -> int:
        """Number of logs that are being cleaned or swapped in."""
        return len(self._cleanings) + len(self._swapping)

    def configure(self, settings: StorageSettings) -> None:
        """Apply new settings to the next cleaning; the I/O budget also to running ones."""
        self._settings = settings
        self._share_io_budget()

    def tick(self, now_ms: int) -> None:
        """Swap in the next segment, or look for a log to clean."""
        if self._is_stopped:
            return
        free_count = self._settings.log_cleaner_threads - self.busy_count
        if self._swapping:
            swapping = self._swapping[0]
            with self._containing_failures(swapping.log):
                self._swap_next(swapping, now_ms)
        if free_count > 0 and has_passed(
            self._checked_ms, self._settings.log_cleaner_backoff_ms, now_ms
        ):
            self._start_next(free_count, now_ms)

    def stop(self) -> None:
        """Start no further cleaning, kill the children, drop waiting results.

        Segments already swapped in stay: each swap is complete by itself.
        """
        self._is_stopped = True
        for cleaning in self._cleanings.values():
            cleaning.cancel()
        while self._swapping:
            self._drop(self._swapping.popleft().log)

    def _start_next(self, count: int, now_ms: int) -> None:
        # Reset when a cleaning succeeds, so that the next log may follow at once.
        self._checked_ms = now_ms
        logs = self._cleanable_logs()
        for due in due_logs(self._ages(logs), now_ms)[:count]:
            log = logs[due.name]
            with self._containing_failures(log):
                self._submit(log, self._job(log, due.cleanable, now_ms))
        self._share_io_budget()

    def _cleanable_logs(self) -> dict[TopicPartition, UnifiedLog]:
        for partition in [key for key, each in self.uncleanable.items() if each.log.is_discarded]:
            del self.uncleanable[partition]
        busy = {*self._cleanings, *(each.log.partition for each in self._swapping)}
        return {
            log.partition: log
            for log in self._directories.opened()
            if log.settings.is_compacted
            and log.partition not in self.uncleanable
            and log.partition not in busy
            # A log that is moving to another directory would be copied half before and half after
            # compaction: a record could lose the tombstone that deletes it. Kafka pauses cleaning
            # for these too.
            and log.future is None
        }

    def _ages(self, logs: dict[TopicPartition, UnifiedLog]) -> list[LogAge[TopicPartition]]:
        ages = []
        for log in logs.values():
            with self._containing_failures(log):
                ages.append(_age(log))
        return ages

    @contextmanager
    def _containing_failures(self, log: UnifiedLog) -> Iterator[None]:
        """Contain failures: corruption skips one log, a failed disk its log directory.

        Checking a log opens indexes and reads headers that may not have been read since the start.
        """
        try:
            yield
        except (BatchError, CorruptFile) as error:
            self.uncleanable[log.partition] = Uncleanable(log, str(error))
        except TooManyOpenFiles:
            # Retried after log.cleaner.backoff.ms.
            return
        except StorageError as error:
            self._directories.directory_of(log.partition).fence(error)

    def _submit(self, log: UnifiedLog, job: CleaningJob) -> None:
        cleaning = self._cleanings[log.partition] = self._begin(job)

        def done(outcome: CleaningResult | CleaningFailure) -> None:
            del self._cleanings[log.partition]
            self._share_io_budget()
            self._cleaned(log, job.generation, outcome)

        def failed(error: StorageError) -> None:
            done(CleaningFailure(FailureKind.STORAGE, str(error)))

        try:
            self._executor.submit(cleaning.run, then=done, on_error=failed)
        except QueueFull:
            # Retried after log.cleaner.backoff.ms.
            del self._cleanings[log.partition]

    def _share_io_budget(self) -> None:
        """Divide the I/O budget between the cleanings that run."""
        share = self._settings.log_cleaner_io_max_bytes_per_second
        if share < LONG_MAX:
            share = max(1, share // max(1, len(self._cleanings)))
        if share != self._io_share:
            self._io_share = share
            for cleaning in self._cleanings.values():
                cleaning.limit_io(share)

    def _cleaned(
        self, log: UnifiedLog, generation: int, outcome: CleaningResult | CleaningFailure
    ) -> None:
        if isinstance(outcome, CleaningFailure):
            # A corrupt log would fail again and again; other failures may be temporary. A log that
            # was truncated or deleted during the cleaning only looks corrupt.
            was_truncated = log.local_log.truncations != generation or log.is_discarded
            if outcome.kind is FailureKind.CORRUPT and not was_truncated:
                self.uncleanable[log.partition] = Uncleanable(log, outcome.reason)
            return
        if self._is_stopped:
            self._drop(log)
            return
        self._checked_ms = None
        self._swapping.append(_Swapping(log, outcome, deque(outcome.groups)))

    def _swap_next(self, swapping: _Swapping, now_ms: int) -> None:
        log, groups = swapping.log, swapping.groups
        rest = replace(swapping.result, groups=tuple(groups))
        if log.failure is not None or log.is_discarded:
            self._swapping.popleft()
            return
        if log.future is not None or not segment_swap.still_valid(
            rest, _inactive_since(log, rest), log.local_log.truncations
        ):
            self._swapping.popleft()
            self._drop(log)
            return
        log.swap_in(groups.popleft(), now_ms=now_ms)
        if not groups:
            self._swapping.popleft()
            self.last_result = swapping.result
            log.first_dirty_offset = swapping.result.first_dirty_offset
            self._directories.directory_of(log.partition).save_cleaner_offsets()

    def _drop(self, log: UnifiedLog) -> None:
        """Remove the files of a discarded cleaning, unless the log was deleted."""
        if log.failure is None and not log.is_discarded:
            with self._containing_failures(log):
                remove_outputs(log.local_log.home.disk, log.folder)

    def _job(self, log: UnifiedLog, cleanable: CleanableRange, now_ms: int) -> CleaningJob:
        settings = self._settings
        threads = max(1, settings.log_cleaner_threads)
        sources = [
            each for each in log.local_log.segments if each.base_offset < cleanable.end_offset
        ]
        return CleaningJob(
            folder=log.folder,
            sources=tuple(_source(segment) for segment in sources),
            first_dirty_offset=cleanable.first_dirty_offset,
            end_offset=cleanable.end_offset,
            aborted=tuple(_aborted(log, cleanable.end_offset)),
            live_producers=tuple(
                LiveProducer(
                    producer_id=entry.producer_id,
                    epoch=entry.epoch,
                    last_data_offset=entry.last_offset,
                )
                for entry in log.producers.entries()
            ),
            now_ms=now_ms,
            generation=log.local_log.truncations,
            delete_retention_ms=log.settings.delete_retention_ms,
            segment_bytes=log.settings.segment_bytes,
            segment_index_bytes=log.settings.segment_index_bytes,
            index_interval_bytes=log.settings.index_interval_bytes,
            map_memory_bytes=settings.log_cleaner_dedupe_buffer_size // threads,
            map_load_factor=settings.log_cleaner_io_buffer_load_factor,
            map_seed=self._rng.bytes(_SEED_BYTES),
            io_buffer_bytes=settings.log_cleaner_io_buffer_size // threads,
            io_max_bytes_per_second=self._io_share,
        )


def _age(log: UnifiedLog) -> LogAge[TopicPartition]:
    return LogAge(
        name=log.partition,
        segments=tuple(_segment_age(segment) for segment in log.local_log.segments),
        first_dirty_offset=log.first_dirty_offset,
        log_start_offset=log.log_start_offset,
        # A record may be removed in favour of a newer one only if a power cut cannot take the newer
        # one: segments are swapped one by one, and the newer record may still be in an old,
        # unflushed one.
        last_stable_offset=min(log.last_stable_offset, log.recovery_point),
        log_end_offset=log.end_offset,
        settings=log.settings,
    )


def _segment_age(segment: LogSegment) -> SegmentAge:
    timestamp = segment.largest_timestamp
    return SegmentAge(
        base_offset=segment.base_offset,
        size_bytes=segment.size,
        largest_timestamp_ms=segment.created_ms if timestamp == NO_TIMESTAMP else timestamp,
        first_timestamp_ms=segment.first_timestamp,
    )


def _source(segment: LogSegment) -> SourceSegment:
    return SourceSegment(
        base_offset=segment.base_offset,
        size_bytes=segment.size,
        modified_ms=segment.created_ms,
        offset_index_bytes=segment.offset_index.size_bytes,
        time_index_bytes=segment.time_index.size_bytes,
    )


def _aborted(log: UnifiedLog, end_offset: int) -> list[AbortedTransaction]:
    return [
        aborted
        for segment in log.local_log.segments
        for aborted in segment.transactions.entries()
        if aborted.first_offset < end_offset
    ]


def _inactive_since(log: UnifiedLog, rest: CleaningResult) -> list[ReplacedSegment]:
    """Return the inactive segments from the first that is still to be replaced on."""
    first = rest.groups[0].replaced[0].base_offset
    return [
        ReplacedSegment(base_offset=segment.base_offset, size_bytes=segment.size)
        for segment in list(log.local_log.segments)[:-1]
        if segment.base_offset >= first
    ]
