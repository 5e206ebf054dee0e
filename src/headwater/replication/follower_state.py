"""The follower side of one partition: fetch positions and applied responses.

The log is truncated where it diverges from the leader's (EP-6) and extended with the leader's
batches byte for byte (EP-9).

Note: a response is only applied if the log still ends where it ended when the request was sent. An
earlier response may have extended or truncated it since.
"""

import logging
from enum import Enum
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import BatchError, HeadwaterError, StorageError
from headwater.common.ids import NO_EPOCH, TopicId
from headwater.protocol.messages.fetch import FetchPartition, PartitionData
from headwater.records.batch_header import HEADER_BYTES, Buffer, read_header
from headwater.replication.partition import Partition
from headwater.replication.truncation import truncate, truncation_offset
from headwater.storage.log.leader_epoch_checkpoint import EpochEnd
from headwater.storage.log.unified_log import UnifiedLog

_log = logging.getLogger(__name__)

Key = tuple[TopicId, int]
_NO_OFFSET: Final = -1


class Outcome(Enum):
    """How fetching continues after a response."""

    CONTINUE = "fetch from the new end offset"
    OUT_OF_RANGE = "look up the leader's log start and end offset"
    DELAY = "retry after a backoff"


class FollowerState:
    """One partition that is fetched from one leader in one leader epoch."""

    __slots__ = (
        "_request_number",
        "_sent_epoch",
        "_sent_log_start",
        "_sent_offset",
        "delays",
        "is_delayed",
        "is_in_session",
        "key",
        "lag",
        "leader_epoch",
        "log",
        "partition",
        "retry_ms",
    )

    def __init__(self, partition: Partition) -> None:
        log = partition.log
        assert log is not None, "the log must be open before the partition is fetched"
        self.partition = partition
        self.log = log
        self.key: Key = (partition.topic.topic_id, partition.name.partition)
        self.leader_epoch = partition.leader_epoch
        # Committed records of the leader that were missing here after the last response.
        self.lag = 0
        # Whether the leader's fetch session has the partition, or the next request adds it.
        self.is_in_session = False
        # Whether fetching is delayed, until when, and how many delays there were in a row.
        self.is_delayed = False
        self.retry_ms = 0
        self.delays = 0
        self._request_number = 0
        self._sent_offset = _NO_OFFSET
        self._sent_log_start = _NO_OFFSET
        self._sent_epoch = NO_EPOCH

    def begin(self, now_ms: int) -> None:
        """Without leader epochs, truncate to the high watermark; the rest is unverifiable."""
        if self.log.epochs.latest == NO_EPOCH:
            self.log.truncate_to(self.log.high_watermark, now_ms=now_ms)

    @property
    def has_changed(self) -> bool:
        """Whether the log has changed since the last request that named the partition."""
        log = self.log
        return (
            log.end_offset != self._sent_offset
            or log.log_start_offset != self._sent_log_start
            or log.epochs.latest != self._sent_epoch
        )

    def is_answered_by(self, number: int) -> bool:
        """Return whether a response to this request still applies to the partition."""
        return self.is_in_session and not self.is_delayed and self._request_number <= number

    def fetch_entry(self, max_bytes: int, number: int) -> FetchPartition:
        """Return the partition's entry in the fetch request with this number."""
        log = self.log
        self.is_in_session = True
        self._request_number = number
        self._sent_offset = log.end_offset
        self._sent_log_start = log.log_start_offset
        self._sent_epoch = log.epochs.latest
        return FetchPartition(
            partition=self.partition.name.partition,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=self._sent_offset,
            last_fetched_epoch=self._sent_epoch,
            log_start_offset=self._sent_log_start,
            partition_max_bytes=max_bytes,
        )

    def forget(self) -> None:
        """The partition is not in the leader's fetch session any more."""
        self.is_in_session = False
        self._sent_offset = _NO_OFFSET

    def process_partition_data(self, data: PartitionData, now_ms: int) -> Outcome:
        """Apply the partition's part of a fetch response."""
        if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return Outcome.OUT_OF_RANGE
        if data.error_code:
            return Outcome.DELAY
        if (self._sent_offset, self._sent_epoch) != (self.log.end_offset, self.log.epochs.latest):
            # The log has been truncated or extended since the request was sent.
            return Outcome.CONTINUE
        try:
            if data.diverging_epoch.end_offset >= 0:
                diverging = data.diverging_epoch
                return self._truncate_diverging(
                    EpochEnd(diverging.epoch, diverging.end_offset), now_ms
                )
            return self._append(data, now_ms)
        except (BatchError, StorageError) as error:
            _log.warning(
                "Cannot apply fetched records: partition=%s error=%s", self.partition.name, error
            )
            return Outcome.DELAY
        except HeadwaterError as error:
            _log.info("Retrying fetch later: partition=%s error=%s", self.partition.name, error)
            return Outcome.DELAY

    def handle_out_of_range(self, leader_start: int, leader_end: int, now_ms: int) -> None:
        """After OFFSET_OUT_OF_RANGE, truncate to the leader's end or restart at its start.

        See EP-7.
        """
        log = self.log
        if leader_end < log.end_offset:
            truncate(log, self.partition.name, leader_end, now_ms)
        elif leader_start > log.end_offset:
            _log.warning(
                "Restarting at the leader's log start: partition=%s offset=%d log_end_offset=%d",
                self.partition.name,
                leader_start,
                log.end_offset,
            )
            log.start_over(leader_start, now_ms=now_ms)

    def _truncate_diverging(self, leader: EpochEnd, now_ms: int) -> Outcome:
        log = self.log
        target = truncation_offset(log.epochs, log.end_offset, leader)
        before = (log.end_offset, log.epochs.latest)
        truncate(log, self.partition.name, max(target, log.log_start_offset), now_ms)
        # If nothing was truncated, the same fetch would at once get the same response.
        has_changed = before != (log.end_offset, log.epochs.latest)
        return Outcome.CONTINUE if has_changed else Outcome.DELAY

    def _append(self, data: PartitionData, now_ms: int) -> Outcome:
        log, records = self.log, data.records
        size_bytes = 0
        if records:
            assert isinstance(records, bytes | bytearray | memoryview)
            _align(log, records, now_ms)
            size_bytes = log.append_as_follower(
                records, leader_epoch=self.leader_epoch, now_ms=now_ms
            )
        self.partition.on_follower_append(
            log,
            high_watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
            size_bytes=size_bytes,
        )
        lag = data.high_watermark - log.end_offset
        self.lag = max(0, lag)
        # No record was appended: the batches are of a leader epoch that this follower does not know
        # yet (EP-8).
        return Outcome.DELAY if records and not size_bytes else Outcome.CONTINUE


def _align(log: UnifiedLog, records: Buffer, now_ms: int) -> None:
    """Move an empty log's start to the base offset of the batch with its offset.

    Needed where DeleteRecords moved the leader's log start into the middle of a batch. Kafka does
    the same.
    """
    if log.end_offset != log.log_start_offset or len(records) < HEADER_BYTES:
        return
    header = read_header(records)
    if header.base_offset < log.end_offset <= header.last_offset:
        log.start_over(header.base_offset, now_ms=now_ms)
