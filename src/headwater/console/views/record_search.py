"""Read a page of records after or before a cursor, with an optional text filter.

Note: a log can only be read forwards. To find the newest records, the search reads windows
backwards, each twice as long as the one before, until it has enough matches; a window that was not
read to its end is discarded. The first window is small, so that every search makes progress.

Records and bytes read, bytes kept, time, and concurrent searches are bounded. A page that stopped
early says so, and the next page continues there.
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
"""Size of the first window per partition: small, because records may be large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Parameters. Exactly one of `after` and `before` is set."""

    topic: str
    edges: Mapping[int, tuple[int, int]]
    """Partitions to search, with their first and end offsets."""
    limit: int
    word: Word = field(default_factory=Word)
    committed_only: bool = False
    after: Cursor | None = None
    before: Cursor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A page, the number of records searched, and whether the search stopped early."""

    page: RecordPage
    edges: Mapping[int, tuple[int, int]]
    """First and end offset of each partition, by isolation level."""
    looked_at: int
    ended_early: bool


class RecordSearches:
    """Run searches, a few at a time."""

    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock
        self._slots = asyncio.Semaphore(SEARCHES_MAX)

    async def find(self, search: Search) -> Found:
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._slots.acquire()
        except TimeoutError:
            raise ConsoleError(503, "Too many concurrent searches. Try again later.") from None
        try:
            consumer = self._connections.consumer(
                committed_only=search.committed_only, max_wait_ms=_FETCH_WAIT_MS
            )
            async with consumer:
                if search.committed_only:
                    search = await _up_to_the_last_stable_offset(consumer, search)
                reading = _RunningSearch(consumer, search, self._clock)
                if search.after is not None:
                    return await reading.forwards()
                return await reading.backwards()
        finally:
            self._slots.release()


class _RunningSearch:
    def __init__(self, consumer: Consumer, search: Search, clock: Clock) -> None:
        self._consumer = consumer
        self._search = search
        self._clock = clock
        self._looked_at = 0
        self._reset_limits()
        count = max(len(search.edges), 1)
        # With hundreds of partitions, read only a few records of each.
        self._each = min(search.limit, max(KEPT_RECORDS_MAX // count, 1))

    def _reset_limits(self) -> None:
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
        first_lows = {number: found.low for number, found in finds.items()}
        while not ended_early:
            incomplete = {
                number: found
                for number, found in finds.items()
                if found.low > search.edges[number][0] and len(found.records) < self._each
            }
            if not incomplete:
                break
            ended_early = not await self._window(incomplete, step)
            has_progressed = any(found.low < first_lows[number] for number, found in finds.items())
            if ended_early and not has_progressed and step > 1:
                # Otherwise the next page would start at the same cursor forever. One record fits.
                self._reset_limits()
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
        """Read the offsets before those already read; return whether all were read."""
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
        """Read up to the ends or until each partition has enough; False if limits stop it."""
        places = {
            TopicPartition(self._search.topic, number): number
            for number, found in finds.items()
            if found.high < ends[number]
        }
        self._consumer.assign(list(places))
        # Partitions paused by an earlier window stay paused when they are assigned again.
        self._consumer.resume(list(places))
        for place, number in places.items():
            self._consumer.seek(place, finds[number].high)
        remaining = dict(places)
        while remaining:
            if self._is_limit_reached():
                return False
            wait_ms = max(self._deadline_ms - self._clock.steady_ms(), 1)
            polled = await self._consumer.poll(min(wait_ms, 500) / 1000)
            matching = await matches(polled, self._search.word)
            for record, is_match in zip(polled, matching, strict=True):
                self._take(
                    record, finds[record.partition], ends[record.partition], each, is_match=is_match
                )
            for place, number in list(remaining.items()):
                found = finds[number]
                if each is None or len(found.records) < each:
                    # The position also advances past markers and gaps.
                    position = await self._consumer.position(place)
                    found.high = max(found.high, min(position, ends[number]))
                    if found.high < ends[number]:
                        continue
                self._consumer.pause([place])
                del remaining[place]
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

    def _is_limit_reached(self) -> bool:
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
    """Filter in a thread: matching takes time and may query the registry."""
    if not word:
        return [True] * len(records)
    return await asyncio.to_thread(lambda: list(map(word.holds, records)))


async def _up_to_the_last_stable_offset(consumer: Consumer, search: Search) -> Search:
    """Limit the ends: a read_committed consumer stops at an open transaction."""
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
