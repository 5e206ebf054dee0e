"""Settings of the transaction coordinator."""

from dataclasses import dataclass
from typing import Final

MARKER_RETRY_MS: Final = 100
MARKER_RETRY_MAX_MS: Final = 5_000
"""Retry delay of failed markers, which doubles up to the maximum."""

TOMBSTONES_PER_APPEND: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Settings; `server_version` is the finalized transaction.version.

    `offsets_partition_count` is the number of partitions of __consumer_offsets. Expired ids are
    removed every `expiry_interval_ms`. A transaction is aborted after its timeout; if that fails,
    again after `abort_retry_ms`.
    """

    max_timeout_ms: int
    expiration_ms: int
    offsets_partition_count: int
    server_version: int
    expiry_interval_ms: int = 3_600_000
    abort_retry_ms: int = 10_000
