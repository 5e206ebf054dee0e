"""Reads a topic for a page: from a place on or before it, with or without a word to look for.

What a reader would get wrong: a log can only be read forwards. "The newest" are therefore read in
windows that end where the last one began, each twice as long as the one before, until enough was
found; a window that could not be read to its end counts for nothing. The first is small, so that
every search gets somewhere.

Bounded in every direction: records and bytes that are looked at, bytes that are kept, seconds, and
searches at the same time. What ended early says so, and the next page goes on where it stopped.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from headwater.client.aio import Consumer
from headwater.common.ids import TopicPartition
from headwater.common.ports import Clock
from headwater.console.connections import Connections
from headwater.console.console_errors import ConsoleError
from headwater.console.views.record_filter import Word
from headwater.console.views.record_pages import (
    Cursor,
    Finds,
    RecordPage,
    first_records,
    last_records,
)
from headwater.records.consumer_record import ConsumerRecord

SEARCHES_MAX: Final = 4
SEARCH_MS_MAX: Final = 5_000
LOOKED_AT_RECORDS_MAX: Final = 50_000
LOOKED_AT_BYTES_MAX: Final = 256 * 1024 * 1024
KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
KEPT_RECORDS_MAX: Final = 2_000

_WAIT_S: Final = 30.0
_FETCH_WAIT_MS: Final = 20
_FIRST_STEP: Final = 10
"""Records before the end of each partition that are looked at first: few, for they may be large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is looked for. Exactly one of `after` and `before` is a place to begin at."""

    topic: str
    edges: Mapping[int, tuple[int, int]]
    """The partitions to look at, and where each begins and ends."""
    limit: int
    word: Word = field(default_factory=Word)
    committed_only: bool = False
    after: Cursor | None = None
    before: Cursor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A page, how much was looked at for it, and whether there was more to look at."""

    page: RecordPage
    edges: Mapping[int, tuple[int, int]]
    """Where each partition begins and ends, for this reader."""
    looked_at: int
    ended_early: bool


class RecordSearches:
    """Runs searches, a few at a time."""

    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock
        self._places = asyncio.Semaphore(SEARCHES_MAX)

    async def find(self, search: Search) -> Found:
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._places.acquire()
        except TimeoutError:
            raise ConsoleError(503, "Many are reading records right now. Try again soon.") from None
        try:
            consumer = self._connections.consumer(
                committed_only=search.committed_only, max_wait_ms=_FETCH_WAIT_MS
            )
            async with consumer:
                if search.committed_only:
                    search = await _up_to_the_last_stable_offset(consumer, search)
                reading = _Reading(consumer, search, self._clock)
                if search.after is not None:
                    return await reading.forwards()
                return await reading.backwards()
        finally:
            self._places.release()


class _Reading:
    """One search under way."""

    def __init__(self, consumer: Consumer, search: Search, clock: Clock) -> None:
        self._consumer = consumer
        self._search = search
        self._clock = clock
        self._looked_at = 0
        self._renew()
        count = max(len(search.edges), 1)
        # Of hundreds of partitions each gives a few; else a page would cost thousands of records.
        self._each = min(search.limit, max(KEPT_RECORDS_MAX // count, 1))

    def _renew(self) -> None:
        """Begin anew with all that a search may take."""
        self._deadline_ms = self._clock.steady_ms() + SEARCH_MS_MAX
        self._looked_at_before = self._looked_at
        self._looked_at_bytes = 0
        self._kept_bytes = 0

    async def forwards(self) -> Found:
        search = self._search
        assert search.after is not None
        finds = {}
        for number, (start, end) in search.edges.items():
            begin = min(max(search.after.get(number, start), start), end)
            finds[number] = Finds(begin, begin)
        ends = {number: end for number, (_, end) in search.edges.items()}
        is_whole = await self._read(finds, ends, each=self._each)
        page = first_records(finds, search.limit)
        return self._found(page, ended_early=not is_whole)

    async def backwards(self) -> Found:
        search = self._search
        assert search.before is not None
        finds = {}
        for number, (start, end) in search.edges.items():
            high = min(max(search.before.get(number, end), start), end)
            finds[number] = Finds(high, high)
        step, ended_early = min(self._each, _FIRST_STEP), False
        begun = {number: found.low for number, found in finds.items()}
        while not ended_early:
            wanting = {
                number: found
                for number, found in finds.items()
                if found.low > search.edges[number][0] and len(found.records) < self._each
            }
            if not wanting:
                break
            ended_early = not await self._window(wanting, step)
            has_moved = any(found.low < begun[number] for number, found in finds.items())
            if ended_early and not has_moved and step > 1:
                # The next page would begin where this one did, for ever. One record fits always.
                self._renew()
                step, ended_early = 1, False
            else:
                step *= 2
        page = last_records(finds, search.limit)
        return self._found(page, ended_early=ended_early)

    def _found(self, page: RecordPage, *, ended_early: bool) -> Found:
        return Found(
            page=page,
            edges=self._search.edges,
            looked_at=self._looked_at,
            ended_early=ended_early,
        )

    async def _window(self, finds: Mapping[int, Finds], step: int) -> bool:
        """Look at the offsets right before what was looked at; whether all could be read."""
        ends = {number: found.low for number, found in finds.items()}
        window = {}
        for number, found in finds.items():
            low = max(found.low - step, self._search.edges[number][0])
            window[number] = Finds(low, low)
        is_whole = await self._read(window, ends, each=None)
        for number, seen in window.items():
            if seen.high >= ends[number]:
                found = finds[number]
                found.low = seen.low
                found.records[:0] = seen.records
        return is_whole

    async def _read(
        self, finds: Mapping[int, Finds], ends: Mapping[int, int], *, each: int | None
    ) -> bool:
        """Read on to the ends, or until each partition has enough; whether that was possible."""
        places = {
            TopicPartition(self._search.topic, number): number
            for number, found in finds.items()
            if found.high < ends[number]
        }
        self._consumer.assign(list(places))
        # What an earlier window has paused stays so, though it is assigned again.
        self._consumer.resume(list(places))
        for place, number in places.items():
            self._consumer.seek(place, finds[number].high)
        left = dict(places)
        while left:
            if self._is_spent():
                return False
            wait_ms = max(self._deadline_ms - self._clock.steady_ms(), 1)
            polled = await self._consumer.poll(min(wait_ms, 500) / 1000)
            matching = await matches(polled, self._search.word)
            for record, is_match in zip(polled, matching, strict=True):
                self._take(
                    record, finds[record.partition], ends[record.partition], each, is_match=is_match
                )
            for place, number in list(left.items()):
                found = finds[number]
                if each is None or len(found.records) < each:
                    # Over markers and gaps, which no record tells of.
                    position = await self._consumer.position(place)
                    found.high = max(found.high, min(position, ends[number]))
                    if found.high < ends[number]:
                        continue
                self._consumer.pause([place])
                del left[place]
        return True

    def _take(
        self, record: ConsumerRecord, found: Finds, end: int, each: int | None, *, is_match: bool
    ) -> None:
        if record.offset >= end or (each is not None and len(found.records) >= each):
            return
        size = _size_bytes(record)
        self._looked_at += 1
        self._looked_at_bytes += size
        found.high = record.offset + 1
        if is_match:
            self._kept_bytes += size
            found.records.append(record)

    def _is_spent(self) -> bool:
        return (
            self._clock.steady_ms() >= self._deadline_ms
            or self._looked_at - self._looked_at_before >= LOOKED_AT_RECORDS_MAX
            or self._looked_at_bytes >= LOOKED_AT_BYTES_MAX
            or self._kept_bytes >= KEPT_BYTES_MAX
        )


def _size_bytes(record: ConsumerRecord) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


async def matches(records: Sequence[ConsumerRecord], word: Word) -> list[bool]:
    """In a thread: others shall be answered meanwhile, and a registry may have to be asked."""
    if not word:
        return [True] * len(records)
    return await asyncio.to_thread(lambda: list(map(word.holds, records)))


async def _up_to_the_last_stable_offset(consumer: Consumer, search: Search) -> Search:
    """Whoever reads committed records only would wait for ever before an open transaction."""
    places = {TopicPartition(search.topic, number): number for number in search.edges}
    stable = await consumer.end_offsets(list(places)) if places else {}
    ends = {places[place]: offset for place, offset in stable.items()}
    return replace(
        search,
        edges={
            number: (start, max(min(end, ends[number]), start))
            for number, (start, end) in search.edges.items()
        },
    )
