"""The log of a shard: a port, and its implementation on a partition.

The simulator has a simpler implementation.

Note: an offset is *committed* when a failure of this broker cannot lose it, as far as the topic's
settings go: it is below the high watermark and, if `flush.messages` requires it, flushed.
"""

from collections.abc import Callable
from typing import Final, Protocol

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError, StorageError
from headwater.common.ids import NO_SEQUENCE
from headwater.coordinator.records.record_serde import RecordSerde
from headwater.coordinator.runtime.coordinator_effects import TransactionalProducer
from headwater.coordinator.runtime.log_replay import LogSlice, read_slice
from headwater.replication.partition import Partition
from headwater.replication.transaction_verification import VerificationGuard, late_marker_error
from headwater.replication.transactional_append import check_verification, written
from headwater.storage.io.disk import File
from headwater.storage.io.executor import Executor
from headwater.storage.log.unified_log import ReadBound, UnifiedLog
from headwater.storage.producer_state.producer_state_manager import AppendOrigin

_SLICE_BYTES: Final = 256 * 1024
"""Bytes replayed in one turn of the event loop: some thousand records."""


class CoordinatorLog(Protocol):
    """Called on the event loop's thread only."""

    @property
    def leader_epoch(self) -> int: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def committed_offset(self) -> int:
        """The offset after the last committed record."""

    def append(self, batch: bytearray, now_ms: int) -> int | ErrorCode:
        """Append a batch; return its base offset or the error."""

    def append_in_transaction(
        self,
        batch: bytearray,
        producer: TransactionalProducer,
        guard: VerificationGuard | None,
        now_ms: int,
    ) -> int | ErrorCode:
        """Append a batch of a producer's transaction; one that opens it needs a guard."""

    def append_marker(
        self,
        batch: bytearray,
        producer: TransactionalProducer,
        client_version: int,
        now_ms: int,
    ) -> int | ErrorCode:
        """Append the marker of a producer's transaction, unless it is late."""

    def read(
        self,
        offset: int,
        *,
        then: Callable[[LogSlice], None],
        on_error: Callable[[HeadwaterError], None],
    ) -> None:
        """Read and decode a part of the log on a thread; may call back at once."""

    def watch(self, moved: Callable[[], None]) -> None:
        """Call `moved` when the committed offset may have advanced."""

    def unwatch(self) -> None: ...


class PartitionCoordinatorLog:
    """`CoordinatorLog` of a partition that this broker leads.

    Raises `StorageError` or `UnreadableLog` if the partition's log cannot be opened.
    """

    def __init__(self, partition: Partition, codec: RecordSerde, executor: Executor) -> None:
        self._partition = partition
        self._codec = codec
        self._executor = executor
        self._log: UnifiedLog = partition.open_log()
        self._moved: Callable[[], None] = _ignore
        # Offset that must be flushed before it counts as committed.
        self._flush_required = 0

    @property
    def leader_epoch(self) -> int:
        return self._partition.leader_epoch

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def committed_offset(self) -> int:
        log = self._log
        if self._flush_required > log.recovery_point:
            return min(log.high_watermark, log.recovery_point)
        return log.high_watermark

    def append_in_transaction(
        self,
        batch: bytearray,
        producer: TransactionalProducer,
        guard: VerificationGuard | None,
        now_ms: int,
    ) -> int | ErrorCode:
        try:
            check_verification(
                self._partition,
                self._log,
                guard,
                producer_id=producer.producer_id,
                epoch=producer.epoch,
                sequence=NO_SEQUENCE,
            )
        except HeadwaterError as error:
            return error.code
        outcome = self.append(batch, now_ms)
        if not isinstance(outcome, ErrorCode):
            written(self._partition, producer.producer_id)
        return outcome

    def append_marker(
        self,
        batch: bytearray,
        producer: TransactionalProducer,
        client_version: int,
        now_ms: int,
    ) -> int | ErrorCode:
        is_open = self._log.producers.has_open_transaction(producer.producer_id, producer.epoch)
        late = late_marker_error(client_version, has_open_transaction=is_open)
        if late is not None:
            return late
        outcome = self.append(batch, now_ms)
        if not isinstance(outcome, ErrorCode):
            written(self._partition, producer.producer_id)
        return outcome

    def append(self, batch: bytearray, now_ms: int) -> int | ErrorCode:
        partition, log = self._partition, self._log
        refused = partition.leadership_error()
        if refused is not None:
            return refused
        if partition.is_under_min_isr(log.settings.min_insync_replicas):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        if len(batch) > log.settings.max_message_bytes:
            # The log does not check coordinators' batches, but consumers of the topic have this
            # limit.
            return ErrorCode.MESSAGE_TOO_LARGE
        try:
            appended = log.append_as_leader(
                batch,
                leader_epoch=partition.leader_epoch,
                now_ms=now_ms,
                origin=AppendOrigin.COORDINATOR,
            )
        except HeadwaterError as error:
            return error.code
        if log.needs_flush:
            self._flush_required = log.end_offset
            # If it fails, the log goes offline and reports that.
            log.flush(lambda _: self._notify())
        partition.on_append(log, len(batch))
        return appended.base_offset

    def read(
        self,
        offset: int,
        *,
        then: Callable[[LogSlice], None],
        on_error: Callable[[HeadwaterError], None],
    ) -> None:
        try:
            found = self._log.read(offset, max_bytes=_SLICE_BYTES, bound=ReadBound.LOG_END).range
            if found is None:
                then(LogSlice(next_offset=self._log.end_offset))
                return
            file = found.file.hold()
        except HeadwaterError as error:
            on_error(error)
            return

        def job() -> LogSlice | HeadwaterError:
            return _read(file, found.length, found.position, offset, self._codec)

        def ended(outcome: LogSlice | HeadwaterError) -> None:
            found.release()
            if isinstance(outcome, HeadwaterError):
                on_error(outcome)
            else:
                then(outcome)

        try:
            self._executor.submit(job, then=ended, on_error=ended)
        except HeadwaterError as error:
            ended(error)

    def watch(self, moved: Callable[[], None]) -> None:
        self._moved = moved
        self._partition.readers[self] = None

    def unwatch(self) -> None:
        self._moved = _ignore
        self._partition.readers.pop(self, None)

    def more_to_read(self, size_bytes: int) -> None:  # noqa: ARG002  a reader of any number of bytes
        """The high watermark advanced (`PartitionListener`)."""
        self._notify()

    def _notify(self) -> None:
        self._moved()


def _read(
    file: File, length: int, position: int, offset: int, codec: RecordSerde
) -> LogSlice | HeadwaterError:
    """Read on a thread: raise only `StorageError`, return other errors."""
    try:
        return read_slice(file.read(length, position), offset, codec)
    except StorageError:
        raise
    except HeadwaterError as error:
        return error


def _ignore() -> None:
    """Used while there is no watcher."""
