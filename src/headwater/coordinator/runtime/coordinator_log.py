"""The log under a shard: a port, and what fills it, a partition that this broker leads.

The simulator fills it with less. What a reader would get wrong: an offset is *committed* when a
failure of this broker can no longer take it back, as far as the topic's settings go. That is the
high watermark, and, where `flush.messages` asks for it, the disk too.
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
from headwater.replication.transaction_verification import VerificationGuard, refuse_late
from headwater.replication.transactional_append import check_verification, written
from headwater.storage.io.disk import File
from headwater.storage.io.executor import Executor
from headwater.storage.log.unified_log import ReadBound, UnifiedLog
from headwater.storage.producer_state.producer_state_manager import AppendOrigin

_SLICE_BYTES: Final = 256 * 1024
"""What is replayed at one go, while everybody else waits: some thousand records."""


class CoordinatorLog(Protocol):
    """See the module. All calls come from the loop's thread."""

    @property
    def leader_epoch(self) -> int: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def committed_offset(self) -> int:
        """The offset behind the last one that is committed."""

    def append(self, batch: bytearray, now_ms: int) -> int | ErrorCode:
        """Write a batch; the offset of its first record, or why it was not written."""

    def append_in_transaction(
        self,
        batch: bytearray,
        producer: TransactionalProducer,
        ticket: VerificationGuard | None,
        now_ms: int,
    ) -> int | ErrorCode:
        """Write a batch of a producer's transaction, which needs a ticket if it opens it here."""

    def append_marker(
        self,
        batch: bytearray,
        producer: TransactionalProducer,
        client_version: int,
        now_ms: int,
    ) -> int | ErrorCode:
        """Write the end of a producer's transaction, unless it comes late."""

    def read(
        self,
        offset: int,
        *,
        then: Callable[[LogSlice], None],
        otherwise: Callable[[HeadwaterError], None],
    ) -> None:
        """Read and understand some of the log, elsewhere; calls back on the loop, or at once."""

    def watch(self, moved: Callable[[], None]) -> None:
        """Be told when the committed offset may have moved."""

    def unwatch(self) -> None: ...


class PartitionCoordinatorLog:
    """`CoordinatorLog` of a hosted partition.

    Raises `StorageError` or `UnreadableLog` where the partition's log cannot be opened.
    """

    def __init__(self, partition: Partition, codec: RecordSerde, executor: Executor) -> None:
        self._partition = partition
        self._codec = codec
        self._executor = executor
        self._log: UnifiedLog = partition.opened()
        self._moved: Callable[[], None] = _nobody
        # What must be on disk before it counts as committed.
        self._flushed_first = 0

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
        if self._flushed_first > log.recovery_point:
            return min(log.high_watermark, log.recovery_point)
        return log.high_watermark

    def append_in_transaction(
        self,
        batch: bytearray,
        producer: TransactionalProducer,
        ticket: VerificationGuard | None,
        now_ms: int,
    ) -> int | ErrorCode:
        try:
            check_verification(
                self._partition,
                self._log,
                ticket,
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
        late = refuse_late(client_version, has_open_transaction=is_open)
        if late is not None:
            return late
        outcome = self.append(batch, now_ms)
        if not isinstance(outcome, ErrorCode):
            written(self._partition, producer.producer_id)
        return outcome

    def append(self, batch: bytearray, now_ms: int) -> int | ErrorCode:
        partition, log = self._partition, self._log
        refusal = partition.refuse()
        if refusal is not None:
            return refusal
        if partition.lacks_replicas(log.settings.min_insync_replicas):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        if len(batch) > log.settings.max_message_bytes:
            # The log itself lets coordinators pass, but consumers of the topic have this limit.
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
            self._flushed_first = log.end_offset
            # One that fails is told by the log, which is lost then.
            log.flush(lambda _: self._tell())
        partition.advanced(log, len(batch))
        return appended.base_offset

    def read(
        self,
        offset: int,
        *,
        then: Callable[[LogSlice], None],
        otherwise: Callable[[HeadwaterError], None],
    ) -> None:
        try:
            found = self._log.read(offset, max_bytes=_SLICE_BYTES, bound=ReadBound.LOG_END).range
            if found is None:
                then(LogSlice(next_offset=self._log.end_offset))
                return
            file = found.file.hold()
        except HeadwaterError as error:
            otherwise(error)
            return

        def job() -> LogSlice | HeadwaterError:
            return _read(file, found.length, found.position, offset, self._codec)

        def ended(outcome: LogSlice | HeadwaterError) -> None:
            found.release()
            if isinstance(outcome, HeadwaterError):
                otherwise(outcome)
            else:
                then(outcome)

        try:
            self._executor.submit(job, then=ended, otherwise=ended)
        except HeadwaterError as error:
            ended(error)

    def watch(self, moved: Callable[[], None]) -> None:
        self._moved = moved
        self._partition.readers[self] = None

    def unwatch(self) -> None:
        self._moved = _nobody
        self._partition.readers.pop(self, None)

    def more_to_read(self, size_bytes: int) -> None:  # noqa: ARG002  a reader of any number of bytes
        """`headwater.replication.partition.Reader`: the watermark has moved."""
        self._tell()

    def _tell(self) -> None:
        self._moved()


def _read(
    file: File, length: int, position: int, offset: int, codec: RecordSerde
) -> LogSlice | HeadwaterError:
    """On a thread. Only a failed disk may be raised there, so the rest is handed back."""
    try:
        return read_slice(file.read(length, position), offset, codec)
    except StorageError:
        raise
    except HeadwaterError as error:
        return error


def _nobody() -> None:
    """Until somebody watches."""
