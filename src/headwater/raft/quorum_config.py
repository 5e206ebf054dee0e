"""Timeouts of the quorum, named as Kafka's `controller.quorum.*` settings."""

from dataclasses import dataclass
from typing import Final

TOPIC_NAME: Final = "__cluster_metadata"
PARTITION: Final = 0
FETCH_MAX_WAIT_MS: Final = 500
FETCH_MAX_BYTES: Final = 8 * 1024 * 1024
CHECK_QUORUM_TIMEOUT_FACTOR: Final = 1.5
OBSERVER_SESSION_TIMEOUT_MS: Final = 300_000
CAUGHT_UP_WITHIN_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """Kafka's defaults; `fetch_timeout_ms` is `controller.quorum.fetch.timeout.ms`."""

    election_timeout_ms: int = 1_000
    election_backoff_max_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20

    @property
    def check_quorum_timeout_ms(self) -> int:
        """A leader without a majority of fetches resigns after this time."""
        return int(self.fetch_timeout_ms * CHECK_QUORUM_TIMEOUT_FACTOR)

    @property
    def begin_quorum_epoch_interval_ms(self) -> int:
        return self.fetch_timeout_ms // 2

    @property
    def update_voter_period_ms(self) -> int:
        return self.fetch_timeout_ms * 3
