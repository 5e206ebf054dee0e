"""Input and result of a cleaning.

They cross a process boundary as JSON (see `cleaning_job_json`), so they hold only numbers and text.
A job is self-contained: the child asks its parent nothing.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath

from headwater.common.settings.topic_settings import LONG_MAX
from headwater.storage.index.transaction_index import AbortedTransaction
from headwater.storage.log.segment_files import LOG, file_name

UNPACK_LIMIT_BYTES = 1 << 30
"""More than any request may carry: a cleaning must be able to decompress every stored batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSegment:
    """Inactive segment at the time the job was created."""

    base_offset: int
    size_bytes: int
    modified_ms: int
    offset_index_bytes: int
    time_index_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveProducer:
    """Producer that the log still knows; -1 if none of its data has an offset."""

    producer_id: int
    epoch: int
    last_data_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningJob:
    """What to clean and how.

    `sources` are all segments from the log's first one up to the end of the range, in order.
    `aborted` holds every aborted transaction that has a record below `end_offset`, wherever its
    marker is. `generation` is the log's count of truncations; it is returned in the result.
    """

    folder: PurePath
    sources: tuple[SourceSegment, ...]
    first_dirty_offset: int
    end_offset: int
    aborted: tuple[AbortedTransaction, ...]
    live_producers: tuple[LiveProducer, ...]
    now_ms: int
    generation: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_seed: bytes
    map_memory_bytes: int = 134_217_728
    map_load_factor: float = 0.9
    io_buffer_bytes: int = 524_288
    io_max_bytes_per_second: int = LONG_MAX
    unpack_limit_bytes: int = UNPACK_LIMIT_BYTES

    def log_path(self, source: SourceSegment) -> PurePath:
        return self.folder / file_name(source.base_offset, LOG)


@dataclass(slots=True)
class CleaningStats:
    """Counters of one cleaning. The two passes read the dirty part twice."""

    mapped_bytes: int = 0
    mapped_records: int = 0
    read_bytes: int = 0
    read_records: int = 0
    written_bytes: int = 0
    written_records: int = 0
    aborted_records: int = 0
    dropped_batches: int = 0
    emptied_batches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedSegment:
    """Replaced segment, with what shows that it changed meanwhile."""

    base_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """New segment and the old ones that it replaces."""

    base_offset: int
    next_offset: int
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int
    has_transaction_index: bool
    largest_timestamp_ms: int
    offset_of_largest_timestamp: int
    modified_ms: int
    replaced: tuple[ReplacedSegment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningResult:
    """All new segments, written and synced under `.cleaned` names, oldest first."""

    groups: tuple[CleanedGroup, ...]
    first_dirty_offset: int
    generation: int
    stats: CleaningStats = field(compare=False)


class FailureKind(StrEnum):
    """Why a cleaning ended without a result. The log is unchanged in every case."""

    CORRUPT = "damaged"
    NO_SPACE = "no-space"
    STORAGE = "storage"
    CRASHED = "crashed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class CleaningFailure:
    """Result of a failed cleaning: a value, because the broker continues without it."""

    kind: FailureKind
    reason: str
