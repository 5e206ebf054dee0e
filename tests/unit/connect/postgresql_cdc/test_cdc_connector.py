"""The source `postgresql-cdc` without Spark: positions, splits, records and confirmations."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.common.exceptions import HeadwaterError
from headwater.connect.connector import Position, Source
from headwater.connect.postgresql_cdc.cdc_connector import PostgresqlCdcSource, SpoolLost
from headwater.connect.postgresql_cdc.cdc_reader import CdcReader
from headwater.connect.postgresql_cdc.pgoutput import parse_lsn
from headwater.connect.postgresql_cdc.replication_slot import CaptureRefused, SlotLost
from headwater.connect.postgresql_client import connect
from headwater.spark.exceptions import InvalidOption
from headwater.testing.connector_checks import SourceChecks
from tests import postgresql

NUMBERS = count()
Record = tuple[str, Any, Any]


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with postgresql.server(
        wal_level="logical", max_replication_slots="30", max_wal_senders="30"
    ) as address:
        yield address


class Shop:
    """A schema with a table `orders`, and sources that capture it."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri = uri
        self.folder = folder
        self.name = f"shop{next(NUMBERS)}"
        self._connection: Any = connect(uri)
        self._sources: list[PostgresqlCdcSource] = []
        self.run(f"CREATE SCHEMA {self.name}")
        self.run(f"CREATE TABLE {self.name}.orders (id int PRIMARY KEY, v text)")

    def run(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with closing(self._connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)
        self._connection.commit()

    def add(self, first: int, last: int) -> None:
        rows = f"SELECT n, 'v' || n FROM generate_series({first}, {last}) n"
        self.run(f"INSERT INTO {self.name}.orders {rows}")

    def source(self, **options: str) -> PostgresqlCdcSource:
        """A new source, as after a restart; earlier ones are closed."""
        for each in self._sources:
            each.close()
        given = {
            "uri": self.uri,
            "table.include.list": f"{self.name}.orders",
            "slot.name": self.name,
            "topic.prefix": "p",
            "spool": str(self.folder / "spool"),
            **{name.replace("_", "."): text for name, text in options.items()},
        }
        source = PostgresqlCdcSource(given)
        self._sources.append(source)
        return source

    def close(self) -> None:
        self._connection.close()
        for each in self._sources:
            each.close()
        CdcReader(
            self.uri,
            tables=[f"{self.name}.orders"],
            slot=self.name,
            publication=self.name,
        ).drop()


@pytest.fixture
def shop(uri: str, tmp_path: Path) -> Iterator[Shop]:
    with closing(Shop(uri, tmp_path)) as found:
        yield found


def records(source: Source, start: Position, end: Position) -> list[dict[str, Any]]:
    splits = json.loads(json.dumps(source.splits(start, end)))
    return [row for split in splits for batch in source.read(split) for row in batch.to_pylist()]


def read_all(source: Source, start: Position) -> tuple[list[dict[str, Any]], Position]:
    """All batches after a position, committed one by one."""
    found: list[dict[str, Any]] = []
    while True:
        source.commit(start)
        end = json.loads(json.dumps(source.latest(start)))
        if end == start:
            return found, end
        found += records(source, start, end)
        start = end


def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, Any, Any]]:
    """Key, operation and row of Debezium's records; a tombstone has no operation."""
    return [(each["key"], *operation_of(each["value"])) for each in rows]


def operation_of(value: bytes | None) -> tuple[str | None, Any]:
    if value is None:
        return None, None
    event = json.loads(value)
    return event["op"], event["after"]


def order(number: int, text: str | None = None) -> dict[str, Any]:
    return {"id": number, "v": f"v{number}" if text is None else text}


def key(number: int) -> bytes:
    return b'{"id":%d}' % number


def headers(row: dict[str, Any]) -> dict[str, bytes]:
    return {each["key"]: each["value"] for each in row["headers"]}


def test_rows_of_the_snapshot_come_first_and_then_changes(shop: Shop) -> None:
    shop.add(1, 3)
    source = shop.source()
    rows, position = read_all(source, {})
    assert shown(rows) == [(key(n), "r", order(n)) for n in (1, 2, 3)]
    shop.run(
        f"UPDATE {shop.name}.orders SET v = 'x' WHERE id = 1",
        f"DELETE FROM {shop.name}.orders WHERE id = 2",
    )
    changes, _ = read_all(source, position)
    assert shown(changes) == [
        (key(1), "u", order(1, "x")),
        (key(2), "d", None),
        (key(2), None, None),
    ]
    assert {each["topic"] for each in rows + changes} == {f"p.{shop.name}.orders"}
    orders = [headers(each)["__tx_order"] for each in changes]
    assert orders == [b"1", b"2", b"2"]
    assert len({headers(each)["__txid"] for each in changes}) == 1
    event = json.loads(changes[0]["value"])
    assert parse_lsn(headers(changes[0])["__commit_lsn"].decode()) == event["source"]["lsn"]


def test_the_slot_is_confirmed_one_batch_behind_the_committed_one(shop: Shop) -> None:
    source = shop.source()
    _, position = read_all(source, {})
    confirmed = source._reader.status().confirmed_flush_lsn
    shop.add(1, 2)
    end = source.latest(position)
    rows = records(source, position, end)
    assert len(rows) == 2
    source.commit(end)
    # As if Spark had lost its note that the batch is committed.
    restarted = shop.source()
    assert restarted._reader.status().confirmed_flush_lsn == confirmed
    assert records(restarted, position, end) == rows
    restarted.commit(end)
    shop.add(3, 3)
    later = restarted.latest(end)
    restarted.commit(later)
    assert restarted.latest(later) == later
    restarted.close()
    assert restarted._reader.status().confirmed_flush_lsn == parse_lsn(end["lsn"])
    assert len(records(shop.source(), end, later)) == 1


def test_lost_files_of_changes_are_copied_again_from_the_slot(shop: Shop) -> None:
    source = shop.source(maxRowsPerTrigger="4", maxTransactionRows="4")
    _, start = read_all(source, {})
    shop.add(1, 10)
    shop.add(11, 12)
    positions = [start]
    while (end := source.latest(positions[-1])) != positions[-1]:
        positions.append(end)
    pairs = list(pairwise(positions))
    before = [records(source, *pair) for pair in pairs]
    assert [len(each) for each in before] == [4, 4, 4]
    for path in (shop.folder / "spool").iterdir():
        path.unlink()
    for pair, rows in zip(pairs, before, strict=True):
        assert records(shop.source(maxRowsPerTrigger="4", maxTransactionRows="4"), *pair) == rows


def test_an_interrupted_snapshot_continues_where_it_was(shop: Shop) -> None:
    """Rows change behind and before the key at which a new process continues."""
    shop.add(1, 10)
    source = shop.source(maxRowsPerTrigger="3")
    first = source.latest({})
    second = source.latest(first)
    table = f"{shop.name}.orders"
    shop.run(f"UPDATE {table} SET v = 'old' WHERE id = 2")
    shop.run(f"UPDATE {table} SET v = 'new' WHERE id = 8", f"DELETE FROM {table} WHERE id = 9")
    shop.run(f"UPDATE {table} SET id = 20 WHERE id = 1")
    shop.run(f"UPDATE {table} SET id = 0 WHERE id = 10")
    restarted = shop.source(maxRowsPerTrigger="3")
    rows = records(restarted, {}, first) + records(restarted, first, second)
    assert shown(rows) == [(key(n), "r", order(n)) for n in range(1, 7)]
    rest, _ = read_all(restarted, second)
    assert shown(rest) == [
        (key(7), "r", order(7)),
        (key(8), "r", order(8, "new")),
        (key(20), "r", order(20, "v1")),
        (key(2), "u", order(2, "old")),
        (key(1), "d", None),
        (key(1), None, None),
        (key(0), "c", order(0, "v10")),
    ]


def test_lost_rows_of_a_snapshot_are_reported(shop: Shop) -> None:
    shop.add(1, 3)
    source = shop.source()
    end = source.latest({})
    for path in (shop.folder / "spool").iterdir():
        path.unlink()
    assert "the snapshot was interrupted and its rows in" in refusal(
        lambda: records(shop.source(), {}, end), SpoolLost
    )


def test_a_table_that_is_added_later_is_read_and_then_streamed(shop: Shop) -> None:
    shop.run(f"CREATE TABLE {shop.name}.notes (id int PRIMARY KEY, v text)")
    shop.add(1, 1)
    _, position = read_all(shop.source(), {})
    shop.run(f"INSERT INTO {shop.name}.notes VALUES (7, 'before')")
    shop.add(2, 2)
    both = shop.source(table_include_list=f"{shop.name}.orders,{shop.name}.notes")
    rows, position = read_all(both, position)
    assert shown(rows) == [(key(7), "r", order(7, "before")), (key(2), "c", order(2))]
    shop.run(f"INSERT INTO {shop.name}.notes VALUES (8, 'after')")
    rows, _ = read_all(both, position)
    assert [(each["topic"], each["key"]) for each in rows] == [(f"p.{shop.name}.notes", key(8))]


def test_flat_rows_in_one_topic_without_tombstones(shop: Shop) -> None:
    options = {
        "topics": "one",
        "envelope": "flat",
        "tombstones_on_delete": "false",
        "snapshot_mode": "no_data",
    }
    shop.add(1, 1)
    source = shop.source(**options)
    rows, position = read_all(source, {})
    assert rows == []
    shop.add(2, 2)
    shop.run(f"DELETE FROM {shop.name}.orders")
    rows, _ = read_all(source, position)
    values = [json.loads(each["value"]) for each in rows]
    assert [(each["id"], each["v"], each["__op"]) for each in values] == [
        (2, "v2", "c"),
        (1, None, "d"),
        (2, None, "d"),
    ]
    assert {each["topic"] for each in rows} == {"p"}
    assert all(each["__lsn"] and each["__ts"] for each in values)


def test_an_idle_position_moves_with_the_log(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.connect.postgresql_cdc.cdc_connector._IDLE_BYTES", 10_000)
    source = shop.source()
    _, position = read_all(source, {})
    shop.run(f"CREATE TABLE {shop.name}.unrelated AS SELECT generate_series(1, 10000)")
    end = source.latest(position)
    assert parse_lsn(end["lsn"]) > parse_lsn(position["lsn"])
    assert records(source, position, end) == []
    restarted = shop.source()
    assert records(restarted, position, end) == []
    restarted.commit(end)
    shop.add(1, 1)
    assert len(read_all(restarted, end)[0]) == 1


def test_skipped_operations_are_left_out(shop: Shop) -> None:
    source = shop.source(skipped_operations="u,t")
    _, position = read_all(source, {})
    shop.add(1, 1)
    shop.run(f"UPDATE {shop.name}.orders SET v = 'x'")
    shop.run(f"TRUNCATE {shop.name}.orders")
    assert shown(read_all(source, position)[0]) == [(key(1), "c", order(1))]


def refusal(action: Callable[[], object], kind: type[HeadwaterError]) -> str:
    with pytest.raises(kind) as raised:
        action()
    text = str(raised.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"table.include.list": " "}, "the option table.include.list is missing"),
        ({"topic.prefix": ""}, "the option topic.prefix is missing"),
        ({"envelope": "xml"}, "envelope must be one of debezium, flat, not xml"),
        ({"topic.prefix": "a b"}, "topic a b.public.t: "),
        ({"skipped.operations": "x"}, "skipped.operations must be of c, u, d, t, not x"),
        ({"slotname": "x"}, "the connector has no option slotname; did you mean slot.name?"),
    ],
)
def test_invalid_options_are_refused_before_anything_starts(
    options: dict[str, str], expected: str
) -> None:
    good = {"uri": "postgresql://x", "table.include.list": "public.t", "topic.prefix": "p"}
    assert refusal(lambda: PostgresqlCdcSource({**good, **options}), InvalidOption).startswith(
        expected
    )


def test_a_publication_of_others_must_have_the_tables(shop: Shop) -> None:
    shop.run(f"CREATE PUBLICATION {shop.name}")
    source = shop.source(publication_autocreate_mode="disabled")
    text = refusal(source.check, CaptureRefused)
    assert text.startswith(f"publication {shop.name} does not have table {shop.name}.orders")


def test_a_slot_that_was_dropped_or_replaced_is_lost(shop: Shop) -> None:
    source = shop.source()
    _, position = read_all(source, {})
    source.close()
    source._reader.drop()
    assert "there is no replication slot" in refusal(
        lambda: shop.source().latest(position), SlotLost
    )
    shop.add(1, 1)
    source._reader.create()
    assert "changes between them are lost" in refusal(
        lambda: shop.source().latest(position), SlotLost
    )


class TestContract(SourceChecks):
    """Rows are read again between the same positions, whatever was added."""

    @pytest.fixture(autouse=True)
    def _shop(self, uri: str, tmp_path: Path) -> Iterator[None]:
        with closing(Shop(uri, tmp_path)) as self._found:
            self._next = 1
            yield

    def source(self) -> Source:
        return self._found.source()

    def add(self, count: int) -> None:
        self._found.add(self._next, self._next + count - 1)
        self._next += count


def test_a_slot_that_retains_much_of_the_log_is_logged(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module = "headwater.connect.postgresql_cdc.cdc_connector"
    source = shop.source()
    _, position = read_all(source, {})
    assert caplog.text == ""
    monkeypatch.setattr(f"{module}._RETAINED_WARNING_BYTES", 0)
    restarted = shop.source()
    for _ in range(2):
        restarted.latest(position)
    (warning,) = caplog.messages
    assert f"slot={shop.name} retained_bytes=" in warning


def test_slots_are_managed_by_command(shop: Shop) -> None:
    def headwater(*words: str) -> Any:
        found = CliRunner().invoke(app, ["connect", "cdc", *words, "--uri", shop.uri])
        return found.exit_code, found.output

    name = f"{shop.name}_own"
    table = f"{shop.name}.orders"
    assert headwater("create-slot", "--slot", name, "--table", table) == (0, "")
    code, text = headwater("status", "--slot", name, "--json")
    status = json.loads(text)
    assert (code, status["slot"], status["active"], status["wal_status"]) == (
        0,
        name,
        False,
        "reserved",
    )
    assert headwater("drop-slot", "--slot", name) == (0, "")
    code, text = headwater("status", "--slot", name)
    assert code == 1
    assert f"there is no replication slot {name}" in text
