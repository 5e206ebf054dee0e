"""Past log end offsets of one partition, to tell when a record was appended. Pure.

The log end offset is sampled every few seconds. A record was appended between the last sample that
is not above its offset and the first that is; in between, a steady rate is assumed. So the error is
at most the distance of these two samples.

Old samples are thinned out, so that a history has at most `MAX_SAMPLES` of them: for records of the
last `EXACT_INTERVALS` intervals the error is at most one interval, for older ones at most
1/`AGE_FRACTION` of their age. A run of equal offsets takes two samples, however long it is.
"""

from array import array
from bisect import bisect_right
from typing import Final, NamedTuple

EXACT_INTERVALS: Final = 120
AGE_FRACTION: Final = 16
MAX_SAMPLES: Final = 512
# Thinning goes below the limit by this much, so that it is rare.
_THINNED_SAMPLES: Final = 448


class AppendTime(NamedTuple):
    """When a record was appended; a lower bound of its age if the samples begin later."""

    time_ms: int
    is_lower_bound: bool


class OffsetHistory:
    """Samples of the log end offset in order of time; times by a steady clock."""

    __slots__ = ("_ends", "_interval_ms", "_times_ms")

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._times_ms = array("q")
        self._ends = array("q")

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def end_offset(self) -> int | None:
        """The log end offset of the last sample."""
        return self._ends[-1] if self._ends else None

    def add(self, now_ms: int, end_offset: int) -> None:
        """Add a sample. A smaller offset, of a truncated or new log, discards the others."""
        times_ms, ends = self._times_ms, self._ends
        if ends and end_offset < ends[-1]:
            del times_ms[:], ends[:]
        if len(ends) >= 2 and ends[-2] == ends[-1] == end_offset:
            times_ms[-1] = now_ms
            return
        times_ms.append(now_ms)
        ends.append(end_offset)
        if len(ends) > MAX_SAMPLES:
            self._thin(now_ms)

    def append_time(self, offset: int) -> AppendTime | None:
        """Estimate when the record with this offset was appended; None if it was not yet."""
        times_ms, ends = self._times_ms, self._ends
        # The first sample above the offset.
        index = bisect_right(ends, offset)
        if index == len(ends):
            return None
        if index == 0:
            return AppendTime(times_ms[0], is_lower_bound=True)
        before_ms, before = times_ms[index - 1], ends[index - 1]
        span_ms, count = times_ms[index] - before_ms, ends[index] - before
        return AppendTime(before_ms + span_ms * (offset - before) // count, is_lower_bound=False)

    def _thin(self, now_ms: int) -> None:
        times_ms, ends = self._times_ms, self._ends
        exact_since_ms = now_ms - EXACT_INTERVALS * self._interval_ms
        kept = [0]
        for index in range(1, len(ends) - 1):
            after_ms = times_ms[index + 1]
            distance_ms = after_ms - times_ms[kept[-1]]
            is_recent = after_ms > exact_since_ms
            if is_recent or distance_ms > (now_ms - after_ms) // AGE_FRACTION:
                kept.append(index)
        kept.append(len(ends) - 1)
        # More than that only fits if it reaches back for months.
        kept = kept[-_THINNED_SAMPLES:]
        self._times_ms = array("q", [times_ms[index] for index in kept])
        self._ends = array("q", [ends[index] for index in kept])
