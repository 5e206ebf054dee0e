"""Exponential backoff with 20% jitter, as in Kafka (KIP-580).

The jitter spreads the reconnects of many clients after a broker restart.
"""

from dataclasses import dataclass

from headwater.common.ports import Random

_JITTER_PERCENT = 20


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Starts at `initial_ms` and doubles up to `max_ms`."""

    initial_ms: int
    max_ms: int

    def after(self, failures: int, rng: Random) -> int:
        """The wait after this many consecutive failures; 0 after none."""
        if failures <= 0:
            return 0
        # Limit the shift: after thirty doublings the maximum is reached anyway.
        plain_ms = min(self.max_ms, self.initial_ms << min(failures - 1, 30))
        swing_ms = plain_ms * _JITTER_PERCENT // 100
        return min(self.max_ms, plain_ms - swing_ms + rng.below(2 * swing_ms + 1))
