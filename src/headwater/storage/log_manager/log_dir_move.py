"""Copy a log to another log directory while it keeps serving (KIP-113).

Kafka: ReplicaAlterLogDirsThread. The future log grows step by step: bytes are read off the event
loop and appended on it, like a follower appends fetched records. When little is left, the rest is
copied at once and the future log replaces the current log.

Note: anything may happen between a read and its append. If the current log was truncated meanwhile,
the bytes read are discarded and the step is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headwater.common.byte_rate_limit import ByteRateLimit
from headwater.common.exceptions import (
    BatchError,
    OffsetOutOfRange,
    QueueFull,
    StorageError,
    TooManyOpenFiles,
)
from headwater.common.ids import TopicPartition
from headwater.records.batch_header import HEADER_BYTES, read_header
from headwater.storage.io.executor import Executor
from headwater.storage.io.file_range import FileRange
from headwater.storage.log.segment import INT32_MAX
from headwater.storage.log.unified_log import ReadBound, UnifiedLog
from headwater.storage.log_manager.log_dir_move_steps import MoveSizes, MoveStep, next_step
from headwater.storage.log_manager.log_directory import LogDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTools:
    """Dependencies shared by all moves of a broker."""

    executor: Executor
    sizes: MoveSizes
    throttle: Callable[[], ByteRateLimit]
    now_ms: Callable[[], int]
    # Replaces the current log with the complete copy.
    swap: Callable[[LogDirMove], None]
    # Called if the current log contains something that cannot be copied.
    on_failure: Callable[[LogDirMove, BatchError], None]


class LogDirMove:
    """One move; runs by itself as long as `run` finds something to do."""

    def __init__(
        self,
        original: UnifiedLog,
        copy: UnifiedLog,
        *,
        source: LogDirectory,
        target: LogDirectory,
        tools: MoveTools,
    ) -> None:
        self.original = original
        self.copy = copy
        self.source = source
        self.target = target
        self._tools = tools
        # It is unknown how much of a copy found at start is on disk.
        self._unflushed_bytes = tools.sizes.unflushed_bytes
        self._is_waiting = False
        self._is_going = False
        original.future = copy

    @property
    def partition(self) -> TopicPartition:
        return self.original.partition

    @property
    def offset_lag(self) -> int:
        return max(self.original.end_offset - self.copy.end_offset, 0)

    @property
    def is_over(self) -> bool:
        """Whether the move is finished or cancelled, or one of its disks has failed."""
        original, copy = self.original, self.copy
        return (
            original.future is not copy or original.failure is not None or copy.failure is not None
        )

    def run(self) -> None:
        """Do what can be done now; completed jobs continue from there."""
        if self._is_going:
            # A job has ended during its submission: the loop below continues.
            return
        self._is_going = True
        try:
            while not self._is_waiting and not self.is_over and self._step():
                pass
        except (StorageError, TooManyOpenFiles, QueueFull, OffsetOutOfRange):
            # The log has already reported disk failures; others may pass, and another call comes
            # soon.
            return
        except BatchError as error:
            self._tools.on_failure(self, error)
        finally:
            self._is_going = False

    def _step(self) -> bool:
        """Do one step; return False if the move should pause."""
        original, copy = self.original, self.copy
        step = next_step(
            self._tools.sizes,
            copy_end=copy.end_offset,
            original_start=original.log_start_offset,
            left_bytes=original.local_log.bytes_since(copy.end_offset),
            unflushed_bytes=self._unflushed_bytes,
        )
        match step:
            case MoveStep.START_OVER:
                copy.start_over(original.log_start_offset, now_ms=self._tools.now_ms())
            case MoveStep.FLUSH:
                self._flush()
            case MoveStep.COPY:
                return self._read_some()
            case MoveStep.FINISH:
                self._finish()
        return True

    def _flush(self) -> None:
        self._is_waiting = True

        def flushed(failure: StorageError | None) -> None:
            self._is_waiting = False
            if failure is None:
                self._unflushed_bytes = 0
                self.run()

        self.copy.flush(flushed)

    def _read_some(self) -> bool:
        if self._tools.throttle().is_exceeded(self._tools.now_ms()):
            return False
        found = self._next_range(self._tools.sizes.step_bytes)
        if found is None:
            return True
        file = found.file.hold()
        offset, truncations = self.copy.end_offset, self.original.local_log.truncations

        def read(content: bytes) -> None:
            self._is_waiting = False
            found.release()
            is_stale = (
                truncations != self.original.local_log.truncations or offset != self.copy.end_offset
            )
            if self.is_over or is_stale or self._try_append(content):
                self.run()

        def failed(error: StorageError) -> None:
            self._is_waiting = False
            found.release()
            if not self.is_over and truncations == self.original.local_log.truncations:
                self.source.fence(error)

        self._is_waiting = True
        try:
            self._tools.executor.submit(
                lambda: file.read(found.length, found.position), then=read, on_error=failed
            )
        except QueueFull:
            self._is_waiting = False
            found.release()
            raise
        return True

    def _next_range(self, max_bytes: int) -> FileRange | None:
        """Return the next range of the current log; None if only a gap follows."""
        original, copy = self.original, self.copy
        found = original.read(copy.end_offset, max_bytes=max_bytes, bound=ReadBound.LOG_END).range
        if found is None and copy.end_offset < original.end_offset:
            assert not original.local_log.bytes_since(copy.end_offset), (
                "a read raises for corrupt batches"
            )
            copy.skip_to(original.end_offset, now_ms=self._tools.now_ms())
        return found

    def _try_append(self, content: bytes) -> bool:
        """Append what was read; return False if that is not possible now."""
        try:
            self._append(content)
        except (StorageError, TooManyOpenFiles):
            return False
        except BatchError as error:
            self._tools.on_failure(self, error)
            return False
        return True

    def _append(self, content: bytes) -> None:
        original, copy, now_ms = self.original, self.copy, self._tools.now_ms()
        if copy.end_offset == copy.log_start_offset and len(content) >= HEADER_BYTES:
            # DeleteRecords moved the log start into a batch: the copy begins with that batch.
            base_offset = read_header(content).base_offset
            if base_offset < copy.end_offset:
                copy.start_over(base_offset, now_ms=now_ms)
        taken = copy.append_as_follower(content, leader_epoch=INT32_MAX, now_ms=now_ms)
        assert taken, "a read returns at least one whole batch"
        copy.raise_log_start(min(original.log_start_offset, copy.end_offset))
        copy.raise_high_watermark(original.high_watermark)
        self._unflushed_bytes += taken
        self._tools.throttle().record(taken, now_ms)

    def _finish(self) -> None:
        """Copy the rest synchronously and swap."""
        original, copy = self.original, self.copy
        while copy.end_offset < original.end_offset:
            found = self._next_range(self._tools.sizes.final_copy_bytes)
            if found is not None:
                self._append(found.read())
        if copy.is_flushing:
            # A segment was rolled; its flush has to end before the copy is closed.
            self._flush()
        else:
            self._tools.swap(self)
