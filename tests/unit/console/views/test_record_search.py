"""Searches in topics with large records or slow brokers, with a fake consumer."""

import asyncio
from typing import Any, Self, cast

import pytest

from headwater.common.ids import TopicPartition
from headwater.console.connections import Connections
from headwater.console.views import record_search
from headwater.console.views.record_filter import Word
from headwater.console.views.record_search import Found, RecordSearches, Search
from headwater.records.batch_header import TimestampType
from headwater.records.consumer_record import ConsumerRecord


class Clock:
    """A clock that advances with each call."""

    def __init__(self, step_ms: int = 0) -> None:
        self.now = 0
        self.step_ms = step_ms

    def steady_ms(self) -> int:
        self.now += self.step_ms
        return self.now

    def now_ms(self) -> int:
        return self.now


class Lists:
    """A consumer that returns one record per poll, from one partition after the other."""

    def __init__(self, sizes: dict[int, list[int]]) -> None:
        self._sizes = sizes
        self._positions: dict[int, int] = {}
        self._paused: set[int] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def assign(self, places: list[TopicPartition]) -> None:
        """As in Kafka, a paused partition that is assigned again stays paused."""
        self._positions = {each.partition: 0 for each in places}
        self._paused &= set(self._positions)

    def resume(self, places: list[TopicPartition]) -> None:
        self._paused -= {each.partition for each in places}

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._positions[place.partition] = offset

    def pause(self, places: list[TopicPartition]) -> None:
        self._paused |= {each.partition for each in places}

    async def position(self, place: TopicPartition) -> int:
        return self._positions[place.partition]

    async def poll(self, _: float) -> list[ConsumerRecord]:
        waiting = [
            number
            for number, offset in self._positions.items()
            if number not in self._paused and offset < len(self._sizes[number])
        ]
        if not waiting:
            return []
        number = min(waiting, key=lambda each: self._positions[each])
        offset = self._positions[number]
        self._positions[number] += 1
        record = ConsumerRecord(
            topic="tea",
            partition=number,
            offset=offset,
            timestamp=offset,
            timestamp_type=TimestampType.CREATE_TIME,
            key=None,
            value=b"x" * self._sizes[number][offset],
            headers=(),
            leader_epoch=0,
        )
        return [record]


def found(sizes: dict[int, list[int]], clock: Clock, **parameters: Any) -> Found:
    class Cluster:
        def consumer(self, **_: object) -> Lists:
            return Lists(sizes)

    search = Search(
        topic="tea", edges={number: (0, len(each)) for number, each in sizes.items()}, **parameters
    )

    async def run() -> Found:
        searches = RecordSearches(cast("Connections", Cluster()), clock)
        return await searches.find(search)

    return asyncio.run(run())


def all_pages(
    sizes: dict[int, list[int]], clock: Clock, **parameters: Any
) -> list[tuple[int, int]]:
    """All records that paging from the newest to the oldest shows."""
    seen: list[tuple[int, int]] = []
    before: dict[int, int] = {}
    while True:
        page = found(sizes, clock, before=before, **parameters).page
        seen += [(each.partition, each.offset) for each in page.records]
        if not any(page.lows.values()):
            return seen
        assert page.lows != before, "the next page begins where this one did"
        before = page.lows


@pytest.mark.parametrize("limit", [1, 50, 200])
@pytest.mark.parametrize("partitions", [1, 3, 20])
def test_large_records_are_all_found_page_by_page(
    limit: int, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than four of them fit a page."""
    monkeypatch.setattr(record_search, "KEPT_BYTES_MAX", 4_000)
    sizes = {number: [1_000] * 30 for number in range(partitions)}
    seen = all_pages(sizes, Clock(), limit=limit)
    assert sorted(seen) == [(number, each) for number in range(partitions) for each in range(30)]


def test_slow_cluster_is_searched_page_by_page() -> None:
    """A record takes a second, and a page has five."""
    sizes = {0: [1] * 40, 1: [1] * 40}
    seen = all_pages(sizes, Clock(step_ms=500), limit=50)
    assert sorted(seen) == [(number, each) for number in range(2) for each in range(40)]


def test_search_without_matches_reaches_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_search, "LOOKED_AT_RECORDS_MAX", 15)
    assert all_pages({0: [3] * 200}, Clock(), limit=50, word=Word.of("nothing")) == []


def test_small_records_fill_a_page() -> None:
    page = found({0: [1] * 500, 1: [1] * 500}, Clock(), limit=50, before={})
    assert (len(page.page.records), page.ended_early) == (50, False)
