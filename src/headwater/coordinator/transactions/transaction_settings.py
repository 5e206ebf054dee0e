"""The settings that the transaction coordinator goes by."""

from dataclasses import dataclass
from typing import Final

EXPIRY_INTERVAL_MS: Final = 3_600_000
"""How often old transactional ids are looked for. Kafka's default."""

ABORT_RETRY_MS: Final = 10_000
"""When an overdue transaction could not be aborted, it is tried again. Kafka looks this often."""

MARKER_RETRY_MS: Final = 100
MARKER_RETRY_MAX_MS: Final = 5_000
"""Markers that failed are sent again after a time that doubles up to the maximum."""

TOMBSTONES_PER_APPEND: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """`server_version` is the finalized transaction.version; it says how the broker itself aborts.

    `offsets_partition_count` is how many partitions __consumer_offsets has.
    """

    max_timeout_ms: int
    expiration_ms: int
    offsets_partition_count: int
    server_version: int
