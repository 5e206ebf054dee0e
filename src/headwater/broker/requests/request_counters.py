"""What is counted of each API. Plain integers, because they are moved with every request."""

from time import perf_counter_ns
from typing import Final

from headwater.common.error_codes import ErrorCode

# Times are sorted by their highest bit, which costs next to nothing: bucket i holds what took less
# than 2^i times this unit, which is about 16 microseconds. The last bucket holds all the rest.
_UNIT_BITS: Final = 14
BUCKETS: Final = 23


class RequestCounters:
    """How many requests were answered, how long they took, and which errors they told."""

    __slots__ = ("buckets", "errors", "newest", "total_ns", "versions")

    def __init__(self, newest: int) -> None:
        self.newest = newest
        # By version. The last one stands for all that are newer than we know, which are answered
        # too, once: with the versions that we do know.
        self.versions = [0] * (newest + 2)
        self.total_ns = 0
        self.buckets = [0] * BUCKETS
        self.errors: dict[ErrorCode, int] = {}

    @property
    def count(self) -> int:
        return sum(self.versions)

    def answered(self, version: int, started_ns: int) -> None:
        took_ns = perf_counter_ns() - started_ns
        self.versions[version if version <= self.newest else -1] += 1
        self.total_ns += took_ns
        bucket = (took_ns >> _UNIT_BITS).bit_length()
        self.buckets[bucket if bucket < BUCKETS else -1] += 1

    def failed(self, code: ErrorCode) -> None:
        self.errors[code] = self.errors.get(code, 0) + 1


def bucket_bound_ns(index: int) -> int:
    """What the times in this bucket stay below; the last one has no bound."""
    return 1 << (index + _UNIT_BITS)
