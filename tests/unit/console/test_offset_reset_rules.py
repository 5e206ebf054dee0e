"""Pure rules of the console: offset resets, hanging transactions, rates, pages, times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.client.admin.descriptions import ProducerDescription, TransactionDescription
from headwater.common.ids import TopicPartition
from headwater.console.console_errors import ConsoleError
from headwater.console.offset_reset_plan import Log, planned_rows, read_plan, write_plan
from headwater.console.times import age_text, read_time, time_text
from headwater.console.views.paging import page_of
from headwater.console.views.transactions import HANGS_AFTER_MS, open_transactions

TEA = TopicPartition("tea", 0)
LOG = Log(place=TEA, start=10, end=50, before=20, at_time=30)


@pytest.mark.parametrize(
    ("way", "number", "after", "note"),
    [
        ("earliest", 0, 10, None),
        ("latest", 0, 50, None),
        ("offset", 42, 42, None),
        ("offset", 3, 10, "log start is 10"),
        ("offset", 99, 50, "log end is 50"),
        ("time", 0, 30, None),
        ("shift", -5, 15, None),
        ("shift", -50, 10, "log start is 10"),
    ],
)
def test_reset_stays_within_the_log(way: str, number: int, after: int, note: str | None) -> None:
    [row] = planned_rows([LOG], way, number)
    assert (row.before, row.after, row.note, row.change) == (20, after, note, after - 20)


def test_time_after_the_last_record_means_the_log_end() -> None:
    assert planned_rows([Log(place=TEA, start=0, end=5, before=None)], "time", 0)[0].after == 5


def test_partition_without_an_offset_is_not_shifted() -> None:
    assert planned_rows([Log(place=TEA, start=0, end=5, before=None)], "shift", 1) == ()


def test_plan_round_trips() -> None:
    rows = planned_rows([LOG], "offset", 42)
    assert read_plan(write_plan(rows).replace("\n", "\r\n")) == {TEA: 42}


@pytest.mark.parametrize("text", ["", "tea", "tea 0", "tea 0 -1", "tea x 1", "tea 0 1 2"])
def test_invalid_plan_is_rejected(text: str) -> None:
    with pytest.raises(ConsoleError):
        read_plan(text)


def producer(last_timestamp: int, producer_id: int = 7) -> ProducerDescription:
    return ProducerDescription(
        producer_id=producer_id,
        producer_epoch=0,
        last_sequence=1,
        last_timestamp=last_timestamp,
        coordinator_epoch=0,
        transaction_start_offset=3,
    )


def transaction(state: str, *places: TopicPartition) -> TransactionDescription:
    return TransactionDescription(
        transactional_id="shop",
        coordinator_id=0,
        state=state,
        producer_id=7,
        producer_epoch=0,
        timeout_ms=60_000,
        start_time_ms=0,
        partitions=places,
    )


NOW_MS = 10 * HANGS_AFTER_MS


@pytest.mark.parametrize(
    ("age_ms", "known", "running", "hangs"),
    [
        (HANGS_AFTER_MS + 1, {}, {}, True),
        (HANGS_AFTER_MS - 1, {}, {}, False),
        (HANGS_AFTER_MS + 1, {7: "shop"}, {"shop": transaction("Ongoing", TEA)}, False),
        (HANGS_AFTER_MS + 1, {7: "shop"}, {"shop": transaction("Ongoing")}, True),
        (HANGS_AFTER_MS + 1, {7: "shop"}, {"shop": transaction("CompleteAbort", TEA)}, True),
    ],
)
def test_old_transaction_unknown_to_its_coordinator_hangs(
    age_ms: int, known: dict[int, str], running: dict[str, TransactionDescription], hangs: bool
) -> None:
    """KIP-664: open in a partition, but completed or unknown at the coordinator."""
    open_producers = [(TEA, producer(NOW_MS - age_ms))]
    [row] = open_transactions(open_producers, known=known, running=running, now_ms=NOW_MS)
    assert row.hangs is hangs


@given(st.integers(0, 300), st.integers(-3, 50), st.integers(-3, 500))
def test_page_number_is_limited_to_existing_pages(total: int, page: int, size: int) -> None:
    found = page_of(range(total), page=page, size=size)
    assert 1 <= found.page <= found.last
    assert len(found.rows) <= found.size <= 200
    assert bool(found.rows) == bool(total)


def test_times_are_parsed_in_several_formats() -> None:
    assert read_time("1700000000000") == 1_700_000_000_000
    assert read_time("2023-11-14T22:13:20") == 1_700_000_000_000
    assert read_time("2023-11-14T23:13:20+01:00") == 1_700_000_000_000
    assert time_text(1_700_000_000_123) == "2023-11-14 22:13:20.123"
    assert time_text(2**62) == str(2**62)
    for text in ("", "soon", "9" * 30, "2023-99-99"):
        with pytest.raises(ConsoleError):
            read_time(text)
    assert [age_text(each) for each in (500, 119_000, 120_000, 7_200_000)] == [
        "0 s", "119 s", "2 min", "2 h",
    ]  # fmt: skip
