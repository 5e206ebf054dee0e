"""Values of a partition's log: its parts, its events and the result of a read.

The rules are in `unified_log`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from headwater.common.exceptions import StorageError
from headwater.common.ids import TopicPartition
from headwater.common.settings.topic_settings import TopicSettings
from headwater.storage.index.transaction_index import AbortedTransaction
from headwater.storage.io.file_range import FileRange
from headwater.storage.log.leader_epoch_checkpoint import LeaderEpochFileCache
from headwater.storage.log.local_log import LocalLog
from headwater.storage.producer_state.producer_state_manager import ProducerStateManager


class ReadBound(Enum):
    """Upper bound of a read (HW-6). Kafka: FetchIsolation."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    LAST_STABLE = "last stable offset"


class LogRead(NamedTuple):
    """FetchDataInfo: bytes to send, and aborted transactions for read_committed."""

    range: FileRange | None
    aborted: list[AbortedTransaction] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvents:
    """Callbacks from a log to its log directory."""

    failed: Callable[[StorageError], None]
    # Called before a truncation: with a checkpointed recovery point above it, the next start would
    # trust bytes that were never flushed.
    recovery_point_lowered: Callable[[], None]
    # The recovery point has passed a segment, which the next start need not check any more.
    segments_flushed: Callable[[], None]
    # Called before a truncated log is used again: with a checkpointed log start above it, the next
    # start would treat new records as deleted.
    log_start_lowered: Callable[[], None]
    # Called before a truncation: below the checkpointed first dirty offset, the next start
    # attributes a gap between segments to compaction.
    first_dirty_lowered: Callable[[], None]


@dataclass(slots=True, kw_only=True)
class LogParts:
    """Result of loading, from which a `UnifiedLog` is created."""

    partition: TopicPartition
    settings: TopicSettings
    local_log: LocalLog
    producers: ProducerStateManager
    epochs: LeaderEpochFileCache
    log_start_offset: int
    recovery_point: int
    first_dirty_offset: int | None = None
    # Unchanged since a clean shutdown, with nothing rebuilt.
    is_at_rest: bool = False
