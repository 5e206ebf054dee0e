"""Histogram of durations with buckets that double. Plain integers, for speed.

Bucket i counts durations of less than 2^i units of 2^14 ns (about 16 us); the last bucket counts
the rest, from about 69 s on. The index is the position of the highest bit, which is cheap to
compute.
"""

from typing import Final

UNIT_BITS: Final = 14
BUCKETS: Final = 23


def bucket_bound_ns(index: int) -> int:
    """Return the upper bound of a bucket; the last bucket has none."""
    return 1 << (index + UNIT_BITS)


class LatencyHistogram:
    """Counts durations; `total_ns` is their sum and `max_ns` the longest one."""

    __slots__ = ("buckets", "max_ns", "total_ns")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS
        self.total_ns = 0
        self.max_ns = 0

    @property
    def count(self) -> int:
        return sum(self.buckets)

    def record(self, duration_ns: int) -> None:
        """Count a duration; a negative one, of a clock that was set back, counts as 0."""
        took_ns = max(0, duration_ns)
        bucket = (took_ns >> UNIT_BITS).bit_length()
        self.buckets[bucket if bucket < BUCKETS else -1] += 1
        self.total_ns += took_ns
        if took_ns > self.max_ns:
            self.max_ns = took_ns
