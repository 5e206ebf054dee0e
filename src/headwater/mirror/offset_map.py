"""Map offsets of a source partition to offsets of its copy.

Both count up by one per record, except for offsets that only one of the logs has: transaction
markers, gaps of compaction, records that were aborted or copied twice. So the map is a list of
*runs*, within which both count alike. Runs are stored in a compacted topic under keys that are
reused: all recent runs are kept, and exponentially fewer of the older ones.

Note: an offset between two runs is translated to the end of the previous run, so that a consumer
may read some records twice but misses none. Runs are ordered by their target offset, which only
grows, not by their number.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

RECENT_RUNS: Final = 512
_OLD_RUN_INTERVAL: Final = 64
# Limit of runs per checkpoint; compaction can cause many gaps.
RUNS_AT_ONCE: Final = 64


class OffsetPair(NamedTuple):
    """Consecutive records at these offsets in both logs."""

    source: int
    target: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`count` records from offset `source` on are copied to offsets from `target` on.

    Runs of a partition are numbered, and a run that grows keeps its number.
    """

    number: int
    source: int
    target: int
    count: int

    @property
    def source_end(self) -> int:
        return self.source + self.count


def latest(runs: Iterable[Run | None]) -> Run | None:
    """The run that was written last."""
    return max((run for run in runs if run is not None), key=_age, default=None)


def runs_after(last: Run | None, pairs: Sequence[OffsetPair]) -> list[Run]:
    """Runs that are new or have grown after records were copied."""
    merged = list(_merged(([] if last is None else [_pair(last)]) + list(pairs)))
    if last is not None and merged[0] == _pair(last):
        first_number, found = last.number + 1, merged[1:]
    else:
        first_number, found = (0 if last is None else last.number), merged
    return [
        Run(number=number, source=each.source, target=each.target, count=each.records)
        for number, each in enumerate(_thinned(found), first_number)
    ]


def keys_of(number: int) -> list[str]:
    """Keys under which a run is stored.

    Recent keys are reused by the next `RECENT_RUNS` runs. The other keys are each reused half as
    often as the one before.
    """
    keys = [f"recent-{number % RECENT_RUNS}"]
    if number % _OLD_RUN_INTERVAL == 0:
        rank = number // _OLD_RUN_INTERVAL
        keys.append(f"old-{(rank & -rank).bit_length()}")
    return keys


@dataclass(slots=True)
class MirrorOffsetMap:
    """The known runs of one partition."""

    _by_key: dict[str, Run] = field(default_factory=dict)
    _runs: list[Run] | None = None

    def put(self, key: str, run: Run) -> None:
        self._by_key[key] = run
        self._runs = None

    @property
    def last(self) -> Run | None:
        return latest(self._by_key.values())

    def translated(self, offset: int) -> int | None:
        """Translate a consumer's position in the source partition to the copy.

        None if it is before all known runs.
        """
        runs = self._ordered()
        index = bisect_right(runs, offset, key=lambda run: run.source)
        if index == 0:
            return None
        run = runs[index - 1]
        return run.target + min(offset - run.source, run.count)

    def _ordered(self) -> list[Run]:
        """Runs by source offset. Of several with the same start, the latest counts.

        There can be several: from before a run grew, or because records were copied twice.
        """
        if self._runs is None:
            by_source = {run.source: run for run in sorted(self._by_key.values(), key=_age)}
            self._runs = [by_source[source] for source in sorted(by_source)]
        return self._runs


def _age(run: Run) -> tuple[int, int, int]:
    return run.target, run.source, run.count


def _pair(run: Run) -> OffsetPair:
    return OffsetPair(run.source, run.target, run.count)


def _merged(pairs: Iterable[OffsetPair]) -> Iterator[OffsetPair]:
    open_: OffsetPair | None = None
    for each in pairs:
        if (
            open_ is not None
            and each.source == open_.source + open_.records
            and each.target == open_.target + open_.records
        ):
            open_ = open_._replace(records=open_.records + each.records)
            continue
        if open_ is not None:
            yield open_
        open_ = each
    if open_ is not None:
        yield open_


def _thinned(pairs: Sequence[OffsetPair]) -> list[OffsetPair]:
    """Select evenly, including the first and the last one."""
    if len(pairs) <= RUNS_AT_ONCE:
        return list(pairs)
    last = len(pairs) - 1
    return [pairs[number * last // (RUNS_AT_ONCE - 1)] for number in range(RUNS_AT_ONCE)]
