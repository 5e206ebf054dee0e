"""The settings that the transaction coordinator goes by."""

from dataclasses import dataclass
from typing import Final

MARKER_RETRY_MS: Final = 100
MARKER_RETRY_MAX_MS: Final = 5_000
"""Markers that failed are sent again after a time that doubles up to the maximum."""

TOMBSTONES_PER_APPEND: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """`server_version` is the finalized transaction.version; it says how the broker itself aborts.

    `offsets_partition_count` is how many partitions __consumer_offsets has. Old ids are looked for
    every `expiry_interval_ms`. An overdue transaction is aborted when its time is over; if that
    fails, it is tried again after `abort_retry_ms`.
    """

    max_timeout_ms: int
    expiration_ms: int
    offsets_partition_count: int
    server_version: int
    expiry_interval_ms: int = 3_600_000
    abort_retry_ms: int = 10_000
