"""Paging of records across partitions: each record once, none out of order."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.console.views.record_pages import (
    Finds,
    RecordPage,
    first_records,
    last_records,
    read_cursor,
    write_cursor,
)
from headwater.records.batch_header import TimestampType
from headwater.records.consumer_record import ConsumerRecord

Logs = dict[int, list[ConsumerRecord]]


def record(partition: int, offset: int, timestamp: int) -> ConsumerRecord:
    kind = TimestampType.CREATE_TIME
    return ConsumerRecord("tea", partition, offset, timestamp, kind, None, None, (), 0)


@st.composite
def logs(draw: st.DrawFn) -> Logs:
    """Partitions with gaps between offsets and timestamps that jump back and forth."""
    found: Logs = {}
    for partition in range(draw(st.integers(1, 4))):
        offsets = sorted(draw(st.sets(st.integers(0, 40), max_size=12)))
        times = [draw(st.integers(0, 20)) for _ in offsets]
        found[partition] = [record(partition, *pair) for pair in zip(offsets, times, strict=True)]
    return found


def places(page: RecordPage) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in page.records]


def everything(found: Logs) -> list[tuple[int, int]]:
    return sorted((each.partition, each.offset) for part in found.values() for each in part)


def is_in_order(page: RecordPage) -> bool:
    seen: dict[int, int] = {}
    for each in page.records:
        if each.offset <= seen.get(each.partition, -1):
            return False
        seen[each.partition] = each.offset
    return True


@given(logs(), st.integers(1, 7))
def test_paging_forwards_shows_each_record_once(found: Logs, limit: int) -> None:
    at, seen = dict.fromkeys(found, 0), []
    for _ in range(60):
        finds = {
            number: Finds(at[number], 41, [each for each in part if each.offset >= at[number]])
            for number, part in found.items()
        }
        page = first_records(finds, limit)
        assert len(page.records) <= limit
        assert is_in_order(page)
        seen += places(page)
        at = dict(page.highs)
    assert sorted(seen) == everything(found)


@given(logs(), st.integers(1, 7))
def test_paging_backwards_shows_each_record_once(found: Logs, limit: int) -> None:
    at, seen = dict.fromkeys(found, 41), []
    for _ in range(60):
        finds = {
            number: Finds(0, at[number], [each for each in part if each.offset < at[number]])
            for number, part in found.items()
        }
        page = last_records(finds, limit)
        assert len(page.records) <= limit
        assert is_in_order(page)
        seen += places(page)
        at = dict(page.lows)
    assert sorted(seen) == everything(found)


@given(logs(), st.integers(1, 7))
def test_paging_back_and_forth_shows_the_same_page(found: Logs, limit: int) -> None:
    """The buttons for older and newer records lead back and forth without a gap."""
    newest = {number: Finds(0, 41, part) for number, part in found.items()}
    page = last_records(newest, limit)
    again = {
        number: Finds(
            page.lows[number], 41, [each for each in part if each.offset >= page.lows[number]]
        )
        for number, part in found.items()
    }
    assert sorted(places(first_records(again, limit))) == sorted(places(page))


@given(st.dictionaries(st.integers(0, 9999), st.integers(0, 2**40), min_size=1))
def test_cursor_round_trips(cursor: dict[int, int]) -> None:
    assert read_cursor(write_cursor(cursor)) == cursor
