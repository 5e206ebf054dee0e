"""Read partitions for a fetch: file ranges, or the error of each partition.

Byte limits follow FT-1 and FT-2. Nothing is read from disk here: a log returns a file range, and
the fetch handler checks whether its bytes are in the page cache.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError, OffsetOutOfRange
from headwater.common.ids import NO_EPOCH, NodeId
from headwater.replication.fetch.fetch_session import CachedPartition
from headwater.replication.partition import Partition
from headwater.replication.replica_manager import ReplicaManager
from headwater.storage.index.transaction_index import AbortedTransaction
from headwater.storage.io.file_range import FileRange
from headwater.storage.log.leader_epoch_checkpoint import EpochEnd
from headwater.storage.log.unified_log import ReadBound, UnifiedLog

_UNKNOWN: Final = -1
_NOT_HERE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class PartitionRead(NamedTuple):
    """The result of one partition. Offsets are -1 where an error left them unknown."""

    wanted: CachedPartition
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = _UNKNOWN
    last_stable_offset: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN
    range: FileRange | None = None
    aborted: list[AbortedTransaction] | None = None
    diverging: EpochEnd | None = None
    preferred: int = _UNKNOWN

    @property
    def is_final(self) -> bool:
        """Whether to answer the fetch at once.

        An unknown partition is not a reason: a client that fetches others along with it would retry
        in a tight loop. Kafka does the same (4.1).
        """
        if self.error:
            return self.error not in _NOT_HERE
        return self.diverging is not None or self.preferred != _UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Byte limit, isolation, authorization and replica choice of a consumer's fetch.

    `prefer` returns the preferred read replica, if there is one.
    """

    max_bytes: int
    bound: ReadBound
    may_read: Callable[[str], bool]
    may_follow: bool = False
    prefer: Callable[[Partition, int], NodeId | None] | None = None


class FetchReads(NamedTuple):
    """All results of a fetch. `is_final`: waiting would not improve them."""

    partitions: list[PartitionRead]
    size_bytes: int
    is_final: bool


def read_partitions(
    wanted: Sequence[CachedPartition],
    partitions: ReplicaManager,
    limits: FetchLimits,
    found_bytes: int = 0,
) -> FetchReads:
    """Read every partition in session order.

    `found_bytes` is the size of the records that earlier partitions of the same fetch returned.
    """
    left_bytes, total_bytes, is_final = max(0, limits.max_bytes - found_bytes), found_bytes, False
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
    return FetchReads(reads, total_bytes, is_final)


def find_partition(wanted: CachedPartition, partitions: ReplicaManager) -> Partition | ErrorCode:
    """Return the partition, or the error why it is not here (FT-11)."""
    hosted = wanted.hosted
    if hosted is not None and not hosted.is_deleted:
        return hosted
    if wanted.topic_id is not None:
        of_topic = partitions.by_id(wanted.topic_id)
    else:
        of_topic = partitions.by_name(wanted.topic)
    hosted = None if of_topic is None else of_topic.get(wanted.number)
    if hosted is None:
        name = wanted.topic if wanted.topic_id is None else wanted.topic_id
        return partitions.missing_partition_error(name, wanted.number)
    wanted.hosted = hosted
    return hosted


def _read(
    wanted: CachedPartition,
    partitions: ReplicaManager,
    limits: FetchLimits,
    max_bytes: int,
    *,
    at_least_one: bool,
) -> PartitionRead:
    # Checked by name before the lookup, so that the error does not reveal whether the topic exists.
    if wanted.topic_id is None and not limits.may_read(wanted.topic):
        return PartitionRead(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    hosted = find_partition(wanted, partitions)
    if isinstance(hosted, ErrorCode):
        return PartitionRead(wanted, hosted, aborted=[])
    if wanted.topic_id is not None and not limits.may_read(hosted.topic.name):
        return PartitionRead(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    refusal = hosted.leadership_error(wanted.current_leader_epoch, may_follow=limits.may_follow)
    if refusal is not None:
        return PartitionRead(wanted, refusal)
    try:
        log = hosted.open_log()
        diverging = divergence(log, wanted)
        if diverging is not None:
            return add_divergence(wanted, log, diverging)
        preferred = None if limits.prefer is None else limits.prefer(hosted, wanted.offset)
        if preferred is not None:
            return without_records(wanted, log)._replace(preferred=preferred)
        return read_partition(
            wanted, log, max_bytes=max_bytes, bound=limits.bound, at_least_one=at_least_one
        )
    except HeadwaterError as error:
        return PartitionRead(wanted, error.code)


def read_partition(
    wanted: CachedPartition,
    log: UnifiedLog,
    *,
    max_bytes: int,
    bound: ReadBound,
    at_least_one: bool,
) -> PartitionRead:
    """Read a log from the wanted offset. Raises `OffsetOutOfRange`."""
    found = log.read(wanted.offset, max_bytes=max_bytes, bound=bound, at_least_one=at_least_one)
    return PartitionRead(
        wanted,
        ErrorCode.NONE,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        found.range,
        found.aborted,
    )


def add_divergence(wanted: CachedPartition, log: UnifiedLog, diverging: EpochEnd) -> PartitionRead:
    return without_records(wanted, log)._replace(diverging=diverging)


def without_records(wanted: CachedPartition, log: UnifiedLog) -> PartitionRead:
    return PartitionRead(
        wanted,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
    )


def divergence(log: UnifiedLog, wanted: CachedPartition) -> EpochEnd | None:
    """Return where the reader's log diverges, if its request has an epoch (EP-5)."""
    if wanted.last_fetched_epoch == NO_EPOCH or wanted.offset < log.log_start_offset:
        return None
    end = log.epochs.end_offset_for(wanted.last_fetched_epoch, log.end_offset)
    if end.epoch == NO_EPOCH:
        raise OffsetOutOfRange(f"{log.partition} has no leader epoch {wanted.last_fetched_epoch}")
    if end.epoch < wanted.last_fetched_epoch or end.end_offset < wanted.offset:
        return end
    return None
