"""Request counts, latencies and errors of one API. Plain integers, for speed."""

from time import perf_counter_ns

from headwater.common.error_codes import ErrorCode
from headwater.common.latency_histogram import BUCKETS, UNIT_BITS


class RequestCounters:
    """Number of responses by version, their latencies, and their errors."""

    __slots__ = ("buckets", "errors", "newest", "total_ns", "versions")

    def __init__(self, newest: int) -> None:
        self.newest = newest
        # By version. The last entry counts versions newer than the newest known, for which
        # ApiVersions is answered with the known versions.
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
        bucket = (took_ns >> UNIT_BITS).bit_length()
        self.buckets[bucket if bucket < BUCKETS else -1] += 1

    def failed(self, code: ErrorCode) -> None:
        self.errors[code] = self.errors.get(code, 0) + 1
