"""How long to wait before the next try: exponentially longer, a fifth up or down at random.

Kafka does this (KIP-580): the jitter keeps a thousand clients of a restarted broker apart.
"""

from dataclasses import dataclass

from headwater.common.ports import Random

_JITTER_PERCENT = 20


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """From `first_ms`, doubling, up to `most_ms`."""

    first_ms: int
    most_ms: int

    def after(self, failures: int, rng: Random) -> int:
        """The wait after so many failures in a row; none without any."""
        if failures <= 0:
            return 0
        # Beyond thirty doublings every wait is the longest one.
        plain_ms = min(self.most_ms, self.first_ms << min(failures - 1, 30))
        swing_ms = plain_ms * _JITTER_PERCENT // 100
        return min(self.most_ms, plain_ms - swing_ms + rng.below(2 * swing_ms + 1))
