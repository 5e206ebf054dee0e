"""The follower's side of one partition: what to ask of its leader, and what to make of the answer.

The log is cut where the leader's history is another (EP-6), and grows by what the leader sends as
it is (EP-9). What a reader would get wrong: an answer is about what was asked. Between the two the
log may have been cut or have grown by an earlier answer, and then it is not taken.
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
_NOWHERE: Final = -1


class Outcome(Enum):
    """How it goes on after an answer."""

    FETCH_ON = "ask for what follows"
    OUT_OF_RANGE = "find out where the leader's log begins and ends"
    DELAY = "try again a little later"


class FollowerState:
    """One partition that is fetched from one leader in one leader epoch."""

    __slots__ = (
        "_named_in",
        "_told_epoch",
        "_told_log_start",
        "_told_offset",
        "delays",
        "hosted",
        "is_delayed",
        "is_in_session",
        "key",
        "leader_epoch",
        "log",
        "retry_ms",
    )

    def __init__(self, hosted: Partition) -> None:
        log = hosted.log
        assert log is not None, "a partition is followed once its log is open"
        self.hosted = hosted
        self.log = log
        self.key: Key = (hosted.topic.topic_id, hosted.name.partition)
        self.leader_epoch = hosted.leader_epoch
        # Whether the leader knows, or is about to hear, that it shall be fetched.
        self.is_in_session = False
        # Whether it is left alone, until when, and how often that came about in a row.
        self.is_delayed = False
        self.retry_ms = 0
        self.delays = 0
        self._named_in = 0
        self._told_offset = _NOWHERE
        self._told_log_start = _NOWHERE
        self._told_epoch = NO_EPOCH

    def begin(self, now_ms: int) -> None:
        """What was never committed and cannot be compared by epochs is not trusted."""
        if self.log.epochs.latest == NO_EPOCH:
            self.log.truncate_to(self.log.high_watermark, now_ms=now_ms)

    @property
    def has_news(self) -> bool:
        """Whether the leader has yet to hear where this log is."""
        log = self.log
        return (
            log.end_offset != self._told_offset
            or log.log_start_offset != self._told_log_start
            or log.epochs.latest != self._told_epoch
        )

    def is_answered_by(self, number: int) -> bool:
        """Whether an answer to the request of this number can be about it as it is now."""
        return self.is_in_session and not self.is_delayed and self._named_in <= number

    def mention(self, max_bytes: int, number: int) -> FetchPartition:
        """How it stands in the next request, which has this number."""
        log = self.log
        self.is_in_session = True
        self._named_in = number
        self._told_offset = log.end_offset
        self._told_log_start = log.log_start_offset
        self._told_epoch = log.epochs.latest
        return FetchPartition(
            partition=self.hosted.name.partition,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=self._told_offset,
            last_fetched_epoch=self._told_epoch,
            log_start_offset=self._told_log_start,
            partition_max_bytes=max_bytes,
        )

    def forget(self) -> None:
        """The leader knows nothing of it any more."""
        self.is_in_session = False
        self._told_offset = _NOWHERE

    def take(self, data: PartitionData, now_ms: int) -> Outcome:
        """Obey an answer."""
        if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return Outcome.OUT_OF_RANGE
        if data.error_code:
            return Outcome.DELAY
        if (self._told_offset, self._told_epoch) != (self.log.end_offset, self.log.epochs.latest):
            # It is about an offset that this log has left since.
            return Outcome.FETCH_ON
        try:
            if data.diverging_epoch.end_offset >= 0:
                diverging = data.diverging_epoch
                return self._part_ways(EpochEnd(diverging.epoch, diverging.end_offset), now_ms)
            return self._grow(data, now_ms)
        except (BatchError, StorageError) as error:
            _log.warning("%s cannot follow its leader: %s", self.hosted.name, error)
            return Outcome.DELAY
        except HeadwaterError as error:
            _log.info("%s follows its leader later: %s", self.hosted.name, error)
            return Outcome.DELAY

    def place_between(self, leader_start: int, leader_end: int, now_ms: int) -> None:
        """The leader has not what was asked for: go where it has something (EP-7)."""
        log = self.log
        if leader_end < log.end_offset:
            truncate(log, self.hosted.name, leader_end, now_ms)
        elif leader_start > log.end_offset:
            _log.warning(
                "%s starts over at offset %d, where its leader's log begins; it ended at %d",
                self.hosted.name,
                leader_start,
                log.end_offset,
            )
            log.start_over(leader_start, now_ms=now_ms)

    def _part_ways(self, leader: EpochEnd, now_ms: int) -> Outcome:
        log = self.log
        target = truncation_offset(log.epochs, log.end_offset, leader)
        before = (log.end_offset, log.epochs.latest)
        truncate(log, self.hosted.name, max(target, log.log_start_offset), now_ms)
        # Where nothing changed, the same question would get the same answer at once.
        is_other = before != (log.end_offset, log.epochs.latest)
        return Outcome.FETCH_ON if is_other else Outcome.DELAY

    def _grow(self, data: PartitionData, now_ms: int) -> Outcome:
        log, records = self.log, data.records
        size_bytes = 0
        if records:
            assert isinstance(records, bytes | bytearray | memoryview)
            _align(log, records, now_ms)
            size_bytes = log.append_as_follower(
                records, leader_epoch=self.leader_epoch, now_ms=now_ms
            )
        self.hosted.followed(
            log,
            high_watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
            size_bytes=size_bytes,
        )
        # Nothing was taken of what came: a leader that we do not follow yet has written it (EP-8).
        return Outcome.DELAY if records and not size_bytes else Outcome.FETCH_ON


def _align(log: UnifiedLog, records: Buffer, now_ms: int) -> None:
    """An empty log may have to begin a little earlier, at the batch that holds its offset.

    That happens where records were deleted up to an offset amid a batch. Kafka does this.
    """
    if log.end_offset != log.log_start_offset or len(records) < HEADER_BYTES:
        return
    header = read_header(records)
    if header.base_offset < log.end_offset <= header.last_offset:
        log.start_over(header.base_offset, now_ms=now_ms)
