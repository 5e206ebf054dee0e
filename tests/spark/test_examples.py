"""Every example of `examples/` with a real broker and real Spark, with its result checked."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.pipelines.run.query_state import SinkQueryState, SinkState
from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import await_records, make, read, run_once, running, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """One broker per example, since examples have fixed topic names."""
    with EmbeddedBroker() as found:
        yield found


def at(minutes: float) -> str:
    """A time on the first morning of a year."""
    seconds = round(minutes * 60)
    return f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


def lines(
    *rows: Mapping[str, object], key: str | None = None
) -> list[tuple[str | None, str | None]]:
    """Rows as JSON, with one of their fields as the key."""
    return [(None if key is None else str(row[key]), json.dumps(row)) for row in rows]


def values(broker: EmbeddedBroker, topic: str) -> list[dict[str, object]]:
    """The values of a topic as JSON, in an order that does not depend on partitions."""
    found = [json.loads(each.value or b"null") for each in read(broker, topic)]
    return sorted(found, key=json.dumps)


def all_finished(lives: list[SinkQueryState]) -> bool:
    assert [each.error for each in lives] == [None] * len(lives)
    return all(each.state is SinkState.FINISHED for each in lives)


@pytest.mark.spark
def test_filter_and_map(spark: "SparkSession", broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Records that do not parse are in the dead letters, with the error."""
    make(broker, "orders", partitions=1)
    good = lines({"id": 1, "amount": 200.0}, {"id": 2, "amount": 50.0}, key="id")
    bad: list[tuple[str | None, str | None]] = [("x", "{nope"), ("y", '{"id": "z"}'), ("e", "")]
    send(broker, "orders", [*good, *bad, ("gone", None)], headers={"from": b"web"})
    assert all_finished(run_once(spark, broker, EXAMPLES / "filter-and-map.yaml", tmp_path))
    (record,) = read(broker, "big-orders")
    assert json.loads(record.value or b"") == {"customer": "1", "id": 1, "gross": 238.0}
    assert (record.key, dict(record.headers)) == (b"1", {"origin": b"orders"})
    letters = {each.key: each for each in read(broker, "orders.dlq")}
    assert {key: each.value for key, each in letters.items()} == {
        b"x": b"{nope",
        b"y": b'{"id": "z"}',
        b"e": b"",
    }
    assert dict(letters[b"y"].headers) == {
        "from": b"web",
        "__headwater.errors.message": b'value: id is not of type bigint: "z"',
        "__headwater.errors.topic": b"orders",
        "__headwater.errors.partition": b"0",
        "__headwater.errors.offset": b"3",
        "__headwater.errors.pipeline": b"big-orders",
        "__headwater.errors.source": b"orders",
    }


@pytest.mark.spark
def test_running_totals_survive_restarts_and_delete_empty_keys(
    spark: "SparkSession", broker: EmbeddedBroker, tmp_path: Path
) -> None:
    make(broker, "transfers")
    file = EXAMPLES / "running-totals.yaml"
    send(broker, "transfers", lines(*({"account": a, "amount": 5} for a in "xxy"), key="account"))
    assert all_finished(run_once(spark, broker, file, tmp_path))
    send(broker, "transfers", lines({"account": "x", "amount": -10}, {"account": "z", "amount": 1}))
    assert all_finished(run_once(spark, broker, file, tmp_path))
    found: dict[bytes | None, list[object]] = {}
    for each in read(broker, "balances"):
        value = None if each.value is None else json.loads(each.value)["balance"]
        found.setdefault(each.key, []).append(value)
    assert found == {b"x": [10, None], b"y": [5], b"z": [1]}


def test_tumbling_windows_include_late_events_until_the_watermark(
    spark: "SparkSession", broker: EmbeddedBroker, tmp_path: Path
) -> None:
    make(broker, "clicks", partitions=1)
    file = EXAMPLES / "tumbling-windows.toml"
    clicks = [("a", 0.1), ("a", 1.2), ("b", 0.9), ("a", 0.9), ("c", 30)]
    send(broker, "clicks", lines(*({"page": page, "at": at(when)} for page, when in clicks)))
    assert all_finished(run_once(spark, broker, file, tmp_path))
    send(broker, "clicks", lines({"page": "a", "at": at(0.5)}, {"page": "c", "at": at(60)}))
    assert all_finished(run_once(spark, broker, file, tmp_path))
    assert values(broker, "clicks-per-minute") == [
        {"page": "a", "minute": "2026-01-01T00:00:00.000Z", "clicks": 2},
        {"page": "a", "minute": "2026-01-01T00:01:00.000Z", "clicks": 1},
        {"page": "b", "minute": "2026-01-01T00:00:00.000Z", "clicks": 1},
        {"page": "c", "minute": "2026-01-01T00:30:00.000Z", "clicks": 1},
    ]


@pytest.mark.spark
def test_hopping_windows_overlap(
    spark: "SparkSession", broker: EmbeddedBroker, tmp_path: Path
) -> None:
    make(broker, "readings", partitions=1)
    readings = [(20.5, 6), (25.0, 11), (19.0, 12), (0.0, 90)]
    rows = [("s", json.dumps({"celsius": c, "at": at(when)})) for c, when in readings]
    send(broker, "readings", list(rows))
    assert all_finished(run_once(spark, broker, EXAMPLES / "hopping-windows.yaml", tmp_path))
    found = [(each["since"], each["celsius"]) for each in values(broker, "highest-temperatures")]
    assert found == [
        ("2026-01-01T00:00:00.000Z", 20.5),
        ("2026-01-01T00:05:00.000Z", 25.0),
        ("2026-01-01T00:10:00.000Z", 25.0),
    ]


@pytest.mark.spark
def test_sessions_end_after_a_gap(
    spark: "SparkSession", broker: EmbeddedBroker, tmp_path: Path
) -> None:
    make(broker, "clicks", partitions=1)
    clicks = [("ada", 0), ("ada", 8), ("bob", 1), ("ada", 4), ("ada", 20), ("eve", 90)]
    rows = [{"visitor": who, "page": "p", "at": at(when)} for who, when in clicks]
    send(broker, "clicks", lines(*rows))
    assert all_finished(run_once(spark, broker, EXAMPLES / "session-windows.yaml", tmp_path))
    assert values(broker, "visits") == [
        {"visitor": "ada", "since": "2026-01-01T00:00:00.000Z", "clicks": 3},
        {"visitor": "ada", "since": "2026-01-01T00:20:00.000Z", "clicks": 1},
        {"visitor": "bob", "since": "2026-01-01T00:01:00.000Z", "clicks": 1},
    ]


def test_two_streams_are_joined_within_an_interval(
    spark: "SparkSession", broker: EmbeddedBroker, tmp_path: Path
) -> None:
    make(broker, "orders", "payments")
    orders = [{"id": number, "amount": 5.0, "at": at(0)} for number in range(3)]
    payments = [
        {"order_id": number, "method": "card", "paid_at": at(when)}
        for number, when in [(0, 9), (1, 11), (7, 1)]
    ]
    send(broker, "orders", lines(*orders))
    send(broker, "payments", lines(*payments))
    assert all_finished(run_once(spark, broker, EXAMPLES / "stream-stream-join.yaml", tmp_path))
    assert values(broker, "paid-orders") == [{"id": 0, "amount": 5.0, "method": "card"}]


def test_stream_is_joined_with_the_current_state_of_a_changelog(
    spark: "SparkSession", broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """A table is read again with each batch: the query sees changes while it runs."""
    make(broker, "orders", "customers")
    file = EXAMPLES / "stream-table-join.yaml"
    send(broker, "customers", [("c1", '{"name": "old"}'), ("c1", '{"name": "Ada"}')])
    send(broker, "customers", [("c2", '{"name": "Bob"}'), ("c2", None)])
    send(broker, "orders", lines({"id": 1, "customer": "c1"}, {"id": 2, "customer": "c2"}))
    with running(spark, broker, file, tmp_path) as stop:
        await_records(broker, "orders-with-names", 2)
        send(broker, "customers", [("c2", '{"name": "Bob again"}')])
        send(broker, "orders", lines({"id": 3, "customer": "c2"}))
        await_records(broker, "orders-with-names", 3)
        assert [(each.state, each.error) for each in stop()] == [(SinkState.STOPPED, None)]
    assert [(each["id"], each["name"]) for each in values(broker, "orders-with-names")] == [
        (1, "Ada"),
        (2, "unknown"),
        (3, "Bob again"),
    ]


def test_python_step(spark: "SparkSession", broker: EmbeddedBroker, tmp_path: Path) -> None:
    make(broker, "lines")
    send(broker, "lines", [(None, "A rose is a rose"), (None, "is it?")])
    assert all_finished(run_once(spark, broker, EXAMPLES / "python-step.yaml", tmp_path))
    found = {each.key: each.value for each in read(broker, "words")}
    assert found == {b"a": b"2", b"rose": b"2", b"is": b"2", b"it": b"1"}


@pytest.mark.spark
def test_processor_keeps_its_state_across_restarts(
    spark: "SparkSession", broker: EmbeddedBroker, tmp_path: Path
) -> None:
    make(broker, "logins")
    file = EXAMPLES / "stateful_processor.py"
    first = [("eve", False), ("bob", False), ("eve", False), ("bob", True), ("bob", False)]
    second = [("eve", False), ("bob", False)]
    for number, logins in ((0, first), (10, second)):
        rows = [
            {"user": user, "number": number + each, "worked": worked}
            for each, (user, worked) in enumerate(logins)
        ]
        send(broker, "logins", lines(*rows, key="user"))
        assert all_finished(run_once(spark, broker, file, tmp_path))
    assert values(broker, "login-alarms") == [{"user": "eve", "number": 10}]


def test_every_example_is_tested() -> None:
    names = [each.name for each in sorted(EXAMPLES.glob("*.*")) if each.suffix != ".md"]
    text = Path(__file__).read_text(encoding="utf-8")
    text += (EXAMPLES / "python-step.yaml").read_text(encoding="utf-8")
    assert [name for name in names if name not in text] == []
