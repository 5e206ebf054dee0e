"""Store samples of many series in rings of fixed size.

Invariant: memory is bounded. A ring has `POINTS_MAX` numbers, and there are at most `SERIES_MAX`
rings, so all of them together take about 15 MB.
"""

from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isnan, nan
from typing import Final, NamedTuple

POINTS_MAX: Final = 360
SERIES_MAX: Final = 5_000


class Measure(StrEnum):
    """What a series measures; its name says of which topic, broker, group or request."""

    TOPIC_RECORDS = "topic-records"
    """Offsets per second by which the topic's log ends advance."""
    TOPIC_GROWTH = "topic-growth"
    """Bytes per second by which the leaders' logs of the topic grow."""
    TOPIC_SIZE = "topic-size"
    BROKER_SIZE = "broker-size"
    BROKER_GROWTH = "broker-growth"
    BROKER_BYTES_IN = "broker-bytes-in"
    BROKER_BYTES_OUT = "broker-bytes-out"
    GROUP_LAG = "group-lag"
    LATENCY = "latency"
    """Milliseconds in which 99 percent of the requests of an API were answered."""
    TOTAL = "total"
    """Sums over the cluster: records, growth, bytes-in, bytes-out, size, lag."""


class SeriesKey(NamedTuple):
    """Measure and name of a series."""

    measure: Measure
    name: str


@dataclass(slots=True)
class _Ring:
    values: "array[float]"
    updated: int


@dataclass(slots=True)
class History:
    """The samples of the last minutes; all series share one time axis."""

    points_max: int = POINTS_MAX
    series_max: int = SERIES_MAX
    dropped: int = 0
    """Series of the last sample that were not stored because there are too many."""
    _times: deque[int] = field(default_factory=deque)
    _rings: dict[SeriesKey, _Ring] = field(default_factory=dict)
    _count: int = 0

    def add(self, at_ms: int, values: Mapping[SeriesKey, float]) -> None:
        """Append one sample. Series without a value in it have a gap there."""
        index = self._count % self.points_max
        self._times.append(at_ms)
        if len(self._times) > self.points_max:
            self._times.popleft()
        self._forget_ended()
        self.dropped = 0
        for ring in self._rings.values():
            ring.values[index] = nan
        for key, value in values.items():
            found = self._rings.get(key)
            if found is None:
                if len(self._rings) >= self.series_max:
                    self.dropped += 1
                    continue
                found = self._rings[key] = _Ring(array("d", [nan]) * self.points_max, 0)
            found.values[index] = value
            found.updated = self._count
        self._count += 1

    @property
    def times(self) -> tuple[int, ...]:
        """Time of each sample, oldest first."""
        return tuple(self._times)

    def values(self, measure: Measure, name: str) -> tuple[float | None, ...]:
        """Values of a series, as many as `times`; None in gaps."""
        ring = self._rings.get(SeriesKey(measure, name))
        if ring is None:
            return (None,) * len(self._times)
        return tuple(None if isnan(each) else each for each in self._ordered(ring))

    def last(self, measure: Measure, name: str) -> float | None:
        """The newest value of a series; None if it has none."""
        ring = self._rings.get(SeriesKey(measure, name))
        if ring is None or not self._count:
            return None
        value = ring.values[(self._count - 1) % self.points_max]
        return None if isnan(value) else value

    def names(self, measure: Measure) -> tuple[str, ...]:
        return tuple(key.name for key in self._rings if key.measure is measure)

    def largest(self, measure: Measure, count: int) -> tuple[str, ...]:
        """Names of the series with the largest average over the stored samples."""
        means = {
            key.name: _mean(self._ordered(ring))
            for key, ring in self._rings.items()
            if key.measure is measure
        }
        ordered = sorted(means, key=lambda name: (-means[name], name))
        return tuple(ordered[:count])

    def _ordered(self, ring: _Ring) -> Iterable[float]:
        if self._count <= self.points_max:
            return ring.values[: self._count]
        first = self._count % self.points_max
        return ring.values[first:] + ring.values[:first]

    def _forget_ended(self) -> None:
        """Make room of deleted topics and groups once all their values are gone."""
        ended = [
            key
            for key, ring in self._rings.items()
            if self._count - ring.updated >= self.points_max
        ]
        for key in ended:
            del self._rings[key]


def _mean(values: Iterable[float]) -> float:
    known = [each for each in values if not isnan(each)]
    return sum(known) / len(known) if known else 0.0
