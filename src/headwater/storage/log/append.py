"""Append to a log: validate the batches, stamp them, write them, update the state.

Everything that can reject a batch comes first, then the bytes are written, and only then does the
state change. A rejected batch or a failed write leaves the log as it was.
"""

from collections.abc import Callable
from typing import NamedTuple

from headwater.common.exceptions import (
    BatchError,
    CorruptBatch,
    DecompressionBomb,
    InvalidRecord,
    OutOfOrderSequenceNumber,
    ValidationDeferred,
)
from headwater.common.ids import NO_TIMESTAMP
from headwater.common.settings.setting_types import LONG_MAX
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records import kernel
from headwater.records.batch_header import (
    APPEND_TIME_FLAG,
    CODEC_MASK,
    CONTROL_FLAG,
    FLAGS_POSITION,
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    read_header,
)
from headwater.records.batch_preparation import (
    LOOP_BATCH_BYTES,
    LOOP_UNPACKED_BYTES,
    PreparedBatch,
    check_prepared,
    needs_preparation,
    under_topic_codec,
)
from headwater.records.batch_stamping import assign_offset, stamp_append_time, stamp_create_time
from headwater.records.batch_validator import check_batch_records, check_client_batch, corrected
from headwater.records.checksum import check_crc
from headwater.records.control_batches import read_control
from headwater.records.kernel import ordinary_header
from headwater.records.payload import DEFAULT_LIMIT_BYTES
from headwater.storage.log.leader_epoch_checkpoint import LeaderEpochFileCache
from headwater.storage.log.local_log import LocalLog, RollRule
from headwater.storage.log.segment import INT32_MAX
from headwater.storage.producer_state import producer_replay
from headwater.storage.producer_state.producer_state_manager import (
    AppendOrigin,
    BatchEntry,
    ProducerStateManager,
)

_APPEND_TIME = "LogAppendTime"
# So large that any timestamp passes, and the sum with the current time is still an int64.
_FAR_AHEAD_MS = 1 << 62
_CLIENT = AppendOrigin.CLIENT
# Batches up to this size are validated on the event loop, whatever their codec.
_QUICK_BYTES = min(LOOP_BATCH_BYTES)
# Number of batches treated as expansive before one is tried again.
_EXPANSIVE_BATCHES = 100
# A retried batch was in flight a moment ago, so its original is near the log end.
_LOOK_BACK_BYTES = 1 << 20


_new_tuple = tuple.__new__


class LogAppendInfo(NamedTuple):
    """Result of an append. For a duplicate, that of the original batch."""

    base_offset: int
    last_offset: int
    append_time_ms: int = NO_TIMESTAMP
    is_duplicate: bool = False


class LogAppender:
    """Appends to one log. `roll` starts a new segment at an offset."""

    def __init__(
        self,
        local_log: LocalLog,
        producers: ProducerStateManager,
        epochs: LeaderEpochFileCache,
        *,
        settings: TopicSettings,
        roll: Callable[[int, int], None],
    ) -> None:
        self._local_log = local_log
        self._producers = producers
        self._epochs = epochs
        self._roll = roll
        # Compressed batches from this size on count as expansive, for the next `_expansive_left`
        # batches.
        self._expansive_bytes = INT32_MAX
        self._expansive_left = 0
        self.configure(settings)

    def configure(self, settings: TopicSettings) -> None:
        self._settings = settings
        self._rule = RollRule(
            segment_bytes=settings.segment_bytes, segment_ms=settings.max_segment_ms
        )
        self._validates = settings.validates_records
        self._stamps_append_time = settings.message_timestamp_type == _APPEND_TIME
        # Records of a compacted topic must have keys, so each of its batches needs full validation.
        self._ordinary_bytes = (
            0 if settings.is_compacted else min(settings.max_message_bytes, settings.segment_bytes)
        )
        self._before_ms = settings.message_timestamp_before_max_ms
        self._after_ms = min(settings.message_timestamp_after_max_ms, _FAR_AHEAD_MS)
        if self._stamps_append_time:
            self._before_ms, self._after_ms = LONG_MAX, _FAR_AHEAD_MS

    def as_leader(
        self,
        batch: bytearray | memoryview,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        may_defer: bool,
    ) -> LogAppendInfo:
        """Append one batch after stamping offset and leader epoch into it."""
        if origin is _CLIENT:
            batch, header = self._validated(batch, now_ms, may_defer)
        else:
            header = read_header(batch)
            check_crc(batch, header)
            assert header.size_bytes == len(batch), "coordinators append one batch at a time"
        if header.producer_id >= 0:
            duplicate = self._admit_producer(batch, header, origin)
            if duplicate is not None:
                return _repeated(duplicate)
        return self._write_stamped(batch, header, leader_epoch, now_ms)

    def _validated(
        self, batch: bytearray | memoryview, now_ms: int, may_defer: bool
    ) -> tuple[bytearray | memoryview, BatchHeader]:
        """Validate a client's batch; return it as it will be appended, with its header."""
        settings = self._settings
        limit_bytes = DEFAULT_LIMIT_BYTES
        if may_defer and self._validates:
            size_bytes = len(batch)
            if (size_bytes > _QUICK_BYTES and needs_preparation(batch, settings)) or (
                size_bytes >= self._expansive_bytes and self._is_expansive(batch)
            ):
                raise ValidationDeferred(f"a batch of {size_bytes} bytes")
            limit_bytes = LOOP_UNPACKED_BYTES
        header = ordinary_header(
            batch,
            self._ordinary_bytes,
            now_ms - self._before_ms,
            now_ms + self._after_ms,
            self._validates,
        )
        try:
            if header is None:
                header = read_header(batch)
                result = check_client_batch(
                    batch, header, settings=settings, now_ms=now_ms, limit_bytes=limit_bytes
                )
            elif self._validates and header.attributes & CODEC_MASK:
                result = check_batch_records(
                    batch, header, settings=settings, now_ms=now_ms, limit_bytes=limit_bytes
                )
            else:
                return batch, header
        except DecompressionBomb as bomb:
            if limit_bytes == DEFAULT_LIMIT_BYTES:
                raise
            self._expansive_bytes, self._expansive_left = len(batch) * 3 // 4, _EXPANSIVE_BATCHES
            raise ValidationDeferred(str(bomb)) from bomb
        return corrected(batch, header, result, settings)

    def _is_expansive(self, batch: Buffer) -> bool:
        """Return whether a compressed batch probably decompresses to a large one.

        A producer's batches are alike, so trying each on the event loop would be wasted work; but
        the guess, taken from earlier batches, is checked again from time to time.
        """
        if len(batch) < HEADER_BYTES or not batch[FLAGS_POSITION] & CODEC_MASK:
            return False
        self._expansive_left -= 1
        if self._expansive_left <= 0:
            self._expansive_bytes = INT32_MAX
        return True

    def as_prepared(self, prepared: PreparedBatch, leader_epoch: int, now_ms: int) -> LogAppendInfo:
        """Append a client's batch that `prepare_batch` has validated."""
        check_prepared(prepared, self._settings, now_ms=now_ms)
        batch, header = prepared.content, prepared.header
        if header.producer_id >= 0:
            duplicate = self._admit_producer(batch, header, AppendOrigin.CLIENT)
            if duplicate is not None:
                return _repeated(duplicate)
        return self._write_stamped(batch, header, leader_epoch, now_ms)

    def as_follower(self, content: Buffer, leader_epoch: int, now_ms: int) -> int:
        """Append the complete batches of fetched content; return the bytes appended.

        A batch with a newer epoch than ours ends the run (EP-8): it may come from a leader that
        this replica does not follow yet. An incomplete batch at the end is left for the next fetch.
        """
        view = memoryview(content)
        return self._write_followed(view, self._followable(view, leader_epoch), now_ms)

    def _admit_producer(
        self, batch: Buffer, header: BatchHeader, origin: AppendOrigin
    ) -> BatchEntry | None:
        """Reject a batch out of sequence; return the original of a duplicate (IDP-2)."""
        if header.is_control:
            control = read_control(batch, header)
            if control is None or control.coordinator_epoch is None:
                raise InvalidRecord(
                    "a control batch with a producer id must be a COMMIT or ABORT marker"
                )
            self._producers.check_marker(
                producer_id=header.producer_id,
                epoch=header.producer_epoch,
                coordinator_epoch=control.coordinator_epoch,
            )
            return None
        if origin is _CLIENT:
            duplicate = self._producers.find_duplicate(header)
            if duplicate is not None:
                return duplicate
        try:
            self._producers.check(header, origin)
        except OutOfOrderSequenceNumber:
            written = self._written_before(header) if origin is _CLIENT else None
            if written is None:
                raise
            return written
        return None

    def _written_before(self, header: BatchHeader) -> BatchEntry | None:
        """Find the original of a duplicate in the log if the state lacks it (IDP-2).

        Kafka rejects it after a restart, and librdkafka then fails with an error that leaves its
        user not knowing whether the records in flight were written.
        """
        if not self._producers.may_have_expired(header):
            return None
        try:
            for _, found in self._local_log.recent_producer_batches(_LOOK_BACK_BYTES):
                if _is_same(found, header):
                    return BatchEntry(
                        found.base_sequence,
                        found.last_sequence,
                        found.base_offset,
                        found.last_offset,
                        found.max_timestamp,
                    )
        except BatchError:
            # A corrupt batch elsewhere in the log is not this producer's error.
            return None
        return None

    def _write_stamped(
        self, batch: bytearray | memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> LogAppendInfo:
        append_time_ms, timestamp = NO_TIMESTAMP, header.max_timestamp
        if not header.attributes & CONTROL_FLAG:
            if self._settings.compression_type != "producer":
                # The broker has already done this off the event loop; this is for other callers.
                batch, header = under_topic_codec(batch, header, self._settings)
            if self._stamps_append_time:
                stamp_append_time(batch, header, 0, now_ms)
                append_time_ms = timestamp = now_ms
            elif header.attributes & APPEND_TIME_FLAG:
                stamp_create_time(batch, header, 0)
        size_bytes, base_offset = header.size_bytes, self._local_log.end_offset
        last_offset = base_offset + header.last_offset_delta
        if self._local_log.needs_roll(
            self._rule,
            size_bytes=size_bytes,
            last_offset=last_offset,
            max_timestamp=timestamp,
            now_ms=now_ms,
        ):
            self._roll(now_ms, base_offset)
        assign_offset(batch, 0, base_offset, leader_epoch)
        self._local_log.append(batch, ((size_bytes, last_offset, timestamp),))
        self._epochs.assign(leader_epoch, base_offset)
        if header.producer_id >= 0:
            self._record_producer(header, batch, base_offset, timestamp)
        # The NamedTuple's own constructor costs twice as much, for every batch.
        return _new_tuple(LogAppendInfo, (base_offset, last_offset, append_time_ms, False))

    def _followable(self, view: memoryview, leader_epoch: int) -> list[BatchHeader]:
        """Return the batches to append; all are checked before the first is written."""
        headers, _ = kernel.scan(view, 0, len(view))
        position, expected = 0, self._local_log.end_offset
        for index, header in enumerate(headers):
            if header.leader_epoch > leader_epoch:
                return headers[:index]
            check_crc(view, header, position)
            if header.base_offset < expected:
                raise CorruptBatch(
                    f"the log ends at offset {expected}, "
                    f"a batch with base offset {header.base_offset} cannot follow"
                )
            if header.is_control and header.producer_id >= 0:
                # It is read again after the write, and must not turn out unreadable then.
                read_control(view, header, position)
            expected = header.next_offset
            position += header.size_bytes
        return headers

    def _write_followed(self, view: memoryview, headers: list[BatchHeader], now_ms: int) -> int:
        start = end = 0
        run: list[BatchHeader] = []
        for header in headers:
            if self._local_log.needs_roll(
                self._rule,
                size_bytes=header.size_bytes,
                last_offset=header.last_offset,
                max_timestamp=header.max_timestamp,
                now_ms=now_ms,
                pending_bytes=end - start,
            ):
                self._write_run(view[start:end], run)
                run, start = [], end
                self._roll(now_ms, self._new_segment_base(header))
            run.append(header)
            end += header.size_bytes
        self._write_run(view[start:end], run)
        return end

    def _new_segment_base(self, header: BatchHeader) -> int:
        """Return a follower's new base offset: the log end, even with a gap.

        After a crash a gap between two segments then means lost records. Only a gap too large for
        relative offsets is left out.
        """
        end_offset = self._local_log.end_offset
        return end_offset if header.last_offset - end_offset <= INT32_MAX else header.base_offset

    def _write_run(self, content: memoryview, headers: list[BatchHeader]) -> None:
        if not headers:
            return
        self._local_log.append(
            content, [(each.size_bytes, each.last_offset, each.max_timestamp) for each in headers]
        )
        position = 0
        for header in headers:
            if header.leader_epoch >= 0:
                self._epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                batch = content[position : position + header.size_bytes]
                self._record_producer(header, batch, header.base_offset, header.max_timestamp)
            position += header.size_bytes

    def _record_producer(
        self, header: BatchHeader, batch: Buffer, base_offset: int, timestamp: int
    ) -> None:
        aborted = producer_replay.record(
            self._producers, header, batch, base_offset=base_offset, timestamp=timestamp
        )
        if aborted is not None:
            self._local_log.segments.active.transactions.append(aborted)


def _is_same(one: BatchHeader, other: BatchHeader) -> bool:
    return (
        one.producer_id == other.producer_id
        and one.producer_epoch == other.producer_epoch
        and one.base_sequence == other.base_sequence
        and one.last_sequence == other.last_sequence
    )


def _repeated(batch: BatchEntry) -> LogAppendInfo:
    return LogAppendInfo(batch.first_offset, batch.last_offset, batch.timestamp, is_duplicate=True)
