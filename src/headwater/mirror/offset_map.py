"""Which offset of a copy belongs to which offset of the original.

Both count up by one from record to record, but for what only one of the logs has: markers of
transactions, holes of compaction, records that were aborted or copied twice. So the relation is a
list of *runs*, in which both count alike. It is kept in a compacted topic, under keys that are used
again: all of the last runs, and of the older ones ever fewer.

What a reader would get wrong: an offset between two runs is not an error. It is translated to the
end of the run before it, and a consumer there reads at most something twice, and misses nothing.
And which run is later is not told by its number, but by where it lies in the copy, which only
grows.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

RECENT_RUNS: Final = 512
_OLD_EVERY: Final = 64
# More than that are thinned out: holes of compaction make many.
RUNS_AT_ONCE: Final = 64


class OffsetPair(NamedTuple):
    """Records that lie together in both logs."""

    source: int
    target: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The offsets from `source` on are those from `target` on, for `count` records.

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
    """The one that was written last, if there is any."""
    return max((run for run in runs if run is not None), key=_age, default=None)


def runs_after(last: Run | None, places: Sequence[OffsetPair]) -> list[Run]:
    """The runs that are new or have grown, now that records were copied to these places."""
    merged = list(_merged(([] if last is None else [_place(last)]) + list(places)))
    if last is not None and merged[0] == _place(last):
        first_number, found = last.number + 1, merged[1:]
    else:
        first_number, found = (0 if last is None else last.number), merged
    return [
        Run(number=number, source=each.source, target=each.target, count=each.records)
        for number, each in enumerate(_thinned(found), first_number)
    ]


def keys_of(number: int) -> list[str]:
    """The keys under which a run is kept. Each is used again: one of many by the next runs, the
    others, each half as often as the one before, by ever later ones.
    """
    keys = [f"recent-{number % RECENT_RUNS}"]
    if number % _OLD_EVERY == 0:
        rank = number // _OLD_EVERY
        keys.append(f"old-{(rank & -rank).bit_length()}")
    return keys


@dataclass(slots=True)
class MirrorOffsetMap:
    """The runs of one partition, as far as they are known."""

    _by_key: dict[str, Run] = field(default_factory=dict)
    _runs: list[Run] | None = None

    def put(self, key: str, run: Run) -> None:
        self._by_key[key] = run
        self._runs = None

    @property
    def last(self) -> Run | None:
        return latest(self._by_key.values())

    def translated(self, offset: int) -> int | None:
        """Where the copy goes on for whoever has read the original up to an offset.

        None if it is before all that is known.
        """
        runs = self._ordered()
        place = bisect_right(runs, offset, key=lambda run: run.source)
        if place == 0:
            return None
        run = runs[place - 1]
        return run.target + min(offset - run.source, run.count)

    def _ordered(self) -> list[Run]:
        """By their offsets in the original. Of those that begin at the same one the latest counts:
        it may be there as it was before it grew, and records may have been copied twice.
        """
        if self._runs is None:
            by_source = {run.source: run for run in sorted(self._by_key.values(), key=_age)}
            self._runs = [by_source[source] for source in sorted(by_source)]
        return self._runs


def _age(run: Run) -> tuple[int, int, int]:
    return run.target, run.source, run.count


def _place(run: Run) -> OffsetPair:
    return OffsetPair(run.source, run.target, run.count)


def _merged(places: Iterable[OffsetPair]) -> Iterator[OffsetPair]:
    open_: OffsetPair | None = None
    for each in places:
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


def _thinned(places: Sequence[OffsetPair]) -> list[OffsetPair]:
    """Some of them, evenly, the first and the last among them."""
    if len(places) <= RUNS_AT_ONCE:
        return list(places)
    last = len(places) - 1
    return [places[number * last // (RUNS_AT_ONCE - 1)] for number in range(RUNS_AT_ONCE)]
