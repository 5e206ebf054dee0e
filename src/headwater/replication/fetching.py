"""What a fetch finds in the logs: ranges of files, or why there are none.

The limits are those of FT-1 and FT-2. Nothing is read from disk here: a log answers with a range,
and whether its bytes are in the page cache is another's question.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from headwater.model.errors import ErrorCode
from headwater.model.failures import HeadwaterError, OffsetOutOfRange
from headwater.model.ids import NO_EPOCH
from headwater.replication.fetch_sessions import WantedPartition
from headwater.replication.hosted_partition import HostedPartition
from headwater.replication.hosted_partitions import HostedPartitions
from headwater.storage.file_range import FileRange
from headwater.storage.leader_epochs import EpochEnd
from headwater.storage.partition_log import PartitionLog, ReadBound
from headwater.storage.transaction_index import AbortedTransaction

_UNKNOWN: Final = -1
_NOT_HERE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class PartitionRead(NamedTuple):
    """What one partition of a fetch gives. Offsets are -1 where an error left them unknown."""

    wanted: WantedPartition
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = _UNKNOWN
    last_stable_offset: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN
    range: FileRange | None = None
    aborted: list[AbortedTransaction] | None = None
    diverging: EpochEnd | None = None

    @property
    def is_final(self) -> bool:
        """Whether a client should hear of it at once.

        A partition that is not here is no reason: a client that reads others with it would ask
        again and again. Kafka does this (4.1).
        """
        if self.error:
            return self.error not in _NOT_HERE
        return self.diverging is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one fetch may give, and how far it may see."""

    max_bytes: int
    bound: ReadBound
    may_read: Callable[[str], bool]
    is_follower: bool = False


class Reads(NamedTuple):
    """Everything that a fetch found. `is_final` says that waiting would not make it better."""

    partitions: list[PartitionRead]
    size_bytes: int
    is_final: bool


def read_partitions(
    wanted: Sequence[WantedPartition], partitions: HostedPartitions, limits: Limits
) -> Reads:
    """Look into every partition, in the order of their turns."""
    left_bytes, total_bytes, is_final = limits.max_bytes, 0, False
    reads: list[PartitionRead] = []
    for each in wanted:
        max_bytes = min(each.max_bytes, left_bytes)
        read = _read(each, partitions, limits, max_bytes, at_least_one=not total_bytes)
        reads.append(read)
        if read.range is not None:
            length = read.range.length
            total_bytes += length
            left_bytes = max(0, left_bytes - length)
        elif read.is_final:
            is_final = True
    return Reads(reads, total_bytes, is_final)


def find_wanted(
    wanted: WantedPartition, partitions: HostedPartitions
) -> HostedPartition | ErrorCode:
    """The partition that is meant, or why there is none here (FT-11)."""
    hosted = wanted.hosted
    if hosted is not None and not hosted.is_deleted:
        return hosted
    if wanted.topic_id is not None:
        of_topic = partitions.by_id(wanted.topic_id)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        of_topic = partitions.by_name(wanted.topic)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if of_topic is None:
        return missing
    hosted = of_topic.get(wanted.number)
    if hosted is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wanted.hosted = hosted
    return hosted


def _read(
    wanted: WantedPartition,
    partitions: HostedPartitions,
    limits: Limits,
    max_bytes: int,
    *,
    at_least_one: bool,
) -> PartitionRead:
    hosted = find_wanted(wanted, partitions)
    if isinstance(hosted, ErrorCode):
        return PartitionRead(wanted, hosted, aborted=[])
    refusal = hosted.refuse(wanted.current_leader_epoch)
    if limits.is_follower and refusal is None:
        # EP-10: no partition here has a second replica.
        refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if refusal is not None:
        return PartitionRead(wanted, refusal)
    if not limits.may_read(hosted.topic.name):
        return PartitionRead(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        log = hosted.opened()
        diverging = _divergence(log, wanted)
        if diverging is not None:
            return _found(wanted, log, diverging=diverging)
        found = log.read(
            wanted.offset, max_bytes=max_bytes, bound=limits.bound, at_least_one=at_least_one
        )
    except HeadwaterError as error:
        return PartitionRead(wanted, error.code)
    return PartitionRead(
        wanted,
        ErrorCode.NONE,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        found.range,
        found.aborted,
    )


def _found(wanted: WantedPartition, log: PartitionLog, *, diverging: EpochEnd) -> PartitionRead:
    return PartitionRead(
        wanted,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging=diverging,
    )


def _divergence(log: PartitionLog, wanted: WantedPartition) -> EpochEnd | None:
    """Where the reader's history parts from ours (EP-5), if the reader says what it has."""
    if wanted.last_fetched_epoch == NO_EPOCH or wanted.offset < log.log_start_offset:
        return None
    end = log.epochs.end_offset_for(wanted.last_fetched_epoch, log.end_offset)
    if end.epoch == NO_EPOCH:
        raise OffsetOutOfRange(f"{log.partition} knows no leader epoch {wanted.last_fetched_epoch}")
    if end.epoch < wanted.last_fetched_epoch or end.end_offset < wanted.offset:
        return end
    return None
