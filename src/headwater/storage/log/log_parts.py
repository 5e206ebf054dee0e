"""What a partition's log is made of, what it tells its directory, and what a read of it gives.

Values only; the rules are in `unified_log`.
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
    """How far a reader may see (HW-6)."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    LAST_STABLE = "last stable offset"


class LogRead(NamedTuple):
    """Bytes to send, and for readers of committed data the aborted transactions among them."""

    range: FileRange | None
    aborted: list[AbortedTransaction] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvents:
    """What a log tells its directory."""

    failed: Callable[[StorageError], None]
    # Called before content is cut: a recovery point on disk above the cut would let the next
    # start trust bytes that were never flushed.
    recovery_point_lowered: Callable[[], None]
    # The recovery point has left a segment behind, which the next start need not check any more.
    segments_flushed: Callable[[], None]
    # Called before the cut log is used again: a start on disk above what is appended next would
    # let the next start take that for deleted.
    log_start_lowered: Callable[[], None]
    # Called before content is cut: below the first dirty offset on disk the next start takes
    # a hole between segments for compaction's work.
    first_dirty_lowered: Callable[[], None]


@dataclass(slots=True, kw_only=True)
class LogParts:
    """What loading found, from which the log is made."""

    partition: TopicPartition
    settings: TopicSettings
    body: LocalLog
    producers: ProducerStateManager
    epochs: LeaderEpochFileCache
    log_start_offset: int
    recovery_point: int
    first_dirty_offset: int | None = None
    # Everything is as a clean stop left it, and nothing of it had to be built anew.
    is_at_rest: bool = False
