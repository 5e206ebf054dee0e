"""Read snapshots and changes from a real PostgreSQL."""

import json
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from threading import Timer
from typing import Any

import psycopg
import pytest

from headwater.common.exceptions import HeadwaterError
from headwater.connect.postgresql_cdc.cdc_position import (
    CdcPosition,
    SnapshotRange,
    VisibleTransactions,
)
from headwater.connect.postgresql_cdc.cdc_reader import CdcReader
from headwater.connect.postgresql_cdc.column_types import (
    DATE,
    TIMESTAMP,
    TIMESTAMPTZ,
    typed_value,
)
from headwater.connect.postgresql_cdc.flat_rows import FlatRows
from headwater.connect.postgresql_cdc.pgoutput import UNCHANGED, Lsn
from headwater.connect.postgresql_cdc.replication_slot import (
    CaptureRefused,
    SlotInUse,
    SlotLost,
    refusals,
)
from headwater.connect.postgresql_cdc.replication_slot import refusal as slot_refusal
from headwater.connect.postgresql_cdc.replication_stream import ReplicationStream
from headwater.connect.postgresql_cdc.row_changes import (
    RowChange,
    SourceTransaction,
    TableKeys,
)
from headwater.connect.postgresql_client import DatabaseUnavailable, connect
from tests import postgresql

NUMBERS = count()


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with postgresql.server(wal_level="logical", max_replication_slots="20") as address:
        yield address


class Database:
    """A connection that commits each group of statements."""

    def __init__(self, uri: str) -> None:
        self._connection: Any = connect(uri)

    def run(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with closing(self._connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)
        self._connection.commit()

    def roll_back(self, statement: str) -> None:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement)
        self._connection.rollback()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement)
            found = [tuple(row.values()) for row in cursor.fetch_arrow_table().to_pylist()]
        self._connection.commit()
        return found

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def db(uri: str) -> Iterator[Database]:
    with closing(Database(uri)) as database:
        yield database


@pytest.fixture
def schema(db: Database) -> Iterator[str]:
    """A schema with a table `t`, to be dropped."""
    name = f"s{next(NUMBERS)}"
    db.run(f"CREATE SCHEMA {name}", f"CREATE TABLE {name}.t (id int PRIMARY KEY, v text)")
    yield name
    db.run(f"DROP SCHEMA {name} CASCADE")


@contextmanager
def capture(uri: str, *tables: str) -> Iterator[CdcReader]:
    name = f"capture_{next(NUMBERS)}"
    reader = CdcReader(uri, tables=tables, slot=name, publication=name)
    reader.create()
    try:
        yield reader
    finally:
        reader.drop()


def start(reader: CdcReader) -> CdcPosition:
    with reader.snapshot() as snapshot:
        return snapshot.position


def read(reader: CdcReader, position: CdcPosition, **limits: int) -> list[SourceTransaction]:
    transactions, _ = reader.read(position, **limits)
    return transactions


def shown(transactions: list[SourceTransaction]) -> list[list[tuple[str, Any, Any]]]:
    return [
        [(each.operation.value, each.before, each.after) for each in transaction.changes]
        for transaction in transactions
    ]


def test_inserts_updates_deletes_and_truncates_come_in_order(
    uri: str, db: Database, schema: str
) -> None:
    with capture(uri, f"{schema}.t") as reader:
        position = start(reader)
        db.run(f"INSERT INTO {schema}.t VALUES (1, 'tea'), (2, NULL)")
        db.run(f"UPDATE {schema}.t SET v = 'milk' WHERE id = 1")
        db.run(f"UPDATE {schema}.t SET id = 3 WHERE id = 1")
        db.run(f"DELETE FROM {schema}.t WHERE id = 2", f"TRUNCATE {schema}.t")
        transactions, _ = reader.read(position)
        assert shown(transactions) == [
            [("c", None, ("1", "tea")), ("c", None, ("2", None))],
            [("u", None, ("1", "milk"))],
            [("u", ("1", None), ("3", "milk"))],
            [("d", ("2", None), None), ("t", None, None)],
        ]
        lsns = [each.commit_lsn for each in transactions]
        assert lsns == sorted(lsns)
        assert len({each.xid for each in transactions}) == 4


def test_rolled_back_changes_are_absent(uri: str, db: Database, schema: str) -> None:
    with capture(uri, f"{schema}.t") as reader:
        position = start(reader)
        db.roll_back(f"INSERT INTO {schema}.t VALUES (1, 'never')")
        db.run(f"INSERT INTO {schema}.t VALUES (2, 'kept')")
        assert shown(read(reader, position)) == [[("c", None, ("2", "kept"))]]


def test_unconfirmed_changes_are_read_again_by_a_new_reader(
    uri: str, db: Database, schema: str
) -> None:
    with capture(uri, f"{schema}.t") as reader:
        position = start(reader)
        db.run(f"INSERT INTO {schema}.t VALUES (1, 'a')")
        first, end = reader.read(position)
        reader.close()
        with CdcReader(
            uri, tables=[f"{schema}.t"], slot=reader._slot, publication=reader._publication
        ) as restarted:
            stored = CdcPosition.from_json(json.loads(json.dumps(position.to_json())))
            assert restarted.read(stored) == (first, end)
            assert len(first) == 1
            assert restarted.read(end) == ([], end)
            restarted.confirm(end)
            restarted.close()
            assert "changes between them are lost" in refusal(
                lambda: restarted.read(stored), SlotLost
            )
            assert restarted.read(end) == ([], end)


def test_a_position_skips_what_was_read_and_not_confirmed(
    uri: str, db: Database, schema: str
) -> None:
    with capture(uri, f"{schema}.t") as reader:
        position = start(reader)
        for number in range(5):
            db.run(f"INSERT INTO {schema}.t VALUES ({number}, 'a')")
        ids = []
        while True:
            transactions, end = reader.read(position, max_changes=1)
            if end == position:
                break
            changes = [change for each in transactions for change in each.changes]
            ids += [change.after[0] for change in changes if change.after]
            position = end
        assert ids == ["0", "1", "2", "3", "4"]


def test_a_large_transaction_is_read_in_parts_that_a_new_reader_continues(
    uri: str, db: Database, schema: str
) -> None:
    with capture(uri, f"{schema}.t") as reader:
        position = start(reader)
        db.run(f"INSERT INTO {schema}.t SELECT n, 'a' FROM generate_series(1, 10) n")
        db.run(f"INSERT INTO {schema}.t VALUES (11, 'b')")
        parts = []
        for is_new in (False, True, False, True, False):
            if is_new:
                reader.confirm(position)
                reader.close()
            transactions, position = reader.read(position, max_changes=4, max_transaction_changes=4)
            parts += [
                (
                    each.first_order,
                    each.end_lsn is None,
                    [change.after[0] for change in each.changes if change.after],
                )
                for each in transactions
            ]
        assert parts == [
            (1, True, ["1", "2", "3", "4"]),
            (5, True, ["5", "6", "7", "8"]),
            (9, False, ["9", "10"]),
            (1, False, ["11"]),
        ]


def test_reading_ends_at_what_was_committed_when_it_began(
    uri: str, db: Database, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()
    read_message = ReplicationStream.read

    def read_under_load(stream: ReplicationStream) -> tuple[bytes | None, Lsn]:
        """There is always another change, and never an idle moment."""
        db.run(f"INSERT INTO {schema}.t VALUES ({next(numbers)}, 'v')")
        message, lsn = read_message(stream)
        while message is None:
            message, lsn = read_message(stream)
        return message, lsn

    with capture(uri, f"{schema}.t") as reader:
        position = start(reader)
        db.run(f"INSERT INTO {schema}.t VALUES (-1, 'v')")
        monkeypatch.setattr(ReplicationStream, "read", read_under_load)
        transactions, end = reader.read(position, max_changes=100)
        assert 1 <= len(transactions) < 50
        monkeypatch.undo()
        rest, _ = reader.read(end)
        assert len(transactions) + len(rest) == 1 + next(numbers)


def test_confirming_an_older_position_changes_nothing(uri: str, db: Database, schema: str) -> None:
    with capture(uri, f"{schema}.t") as reader:
        position = start(reader)
        db.run(f"INSERT INTO {schema}.t VALUES (1, 'a')")
        _, later = reader.read(position)
        reader.close()
        reader.confirm(later)
        reader.confirm(position)
        assert reader.status().confirmed_flush_lsn == later.lsn


def test_a_transaction_over_several_tables_is_whole(uri: str, db: Database, schema: str) -> None:
    db.run(f"CREATE TABLE {schema}.other (a int, b int, PRIMARY KEY (b, a))")
    with capture(uri, f"{schema}.t", f"{schema}.other") as reader:
        position = start(reader)
        db.run(
            f"INSERT INTO {schema}.t VALUES (1, 'a')",
            f"INSERT INTO {schema}.other VALUES (1, 2)",
            f"DELETE FROM {schema}.t",
        )
        (transaction,) = read(reader, position, max_changes=1)
        assert [each.relation.name for each in transaction.changes] == ["t", "other", "t"]
        keys = reader.keys()
        assert [keys.of(each.relation) for each in transaction.changes] == [
            ("id",),
            ("a", "b"),
            ("id",),
        ]


def test_an_added_column_is_in_later_rows_only(uri: str, db: Database, schema: str) -> None:
    with capture(uri, f"{schema}.t") as reader:
        position = start(reader)
        db.run(f"INSERT INTO {schema}.t VALUES (1, 'a')")
        db.run(f"ALTER TABLE {schema}.t ADD COLUMN extra bool DEFAULT true")
        db.run(f"INSERT INTO {schema}.t VALUES (2, 'b')")
        rows = [
            flat.row
            for transaction in read(reader, position)
            for flat in FlatRows().transaction_rows(transaction)
        ]
        assert [{k: v for k, v in row.items() if not k.startswith("__")} for row in rows] == [
            {"id": 1, "v": "a"},
            {"id": 2, "v": "b", "extra": True},
        ]


def test_an_unchanged_toasted_value_is_marked(uri: str, db: Database, schema: str) -> None:
    db.run(
        f"ALTER TABLE {schema}.t ADD COLUMN small int",
        f"ALTER TABLE {schema}.t ALTER COLUMN v SET STORAGE EXTERNAL",
    )
    with capture(uri, f"{schema}.t") as reader:
        position = start(reader)
        db.run(f"INSERT INTO {schema}.t VALUES (1, repeat('x', 10000), 1)")
        db.run(f"UPDATE {schema}.t SET small = 2")
        db.run(f"ALTER TABLE {schema}.t REPLICA IDENTITY FULL")
        db.run(f"UPDATE {schema}.t SET small = 3")
        long = "x" * 10000
        assert shown(read(reader, position)) == [
            [("c", None, ("1", long, "1"))],
            [("u", None, ("1", UNCHANGED, "2"))],
            [("u", ("1", long, "2"), ("1", long, "3"))],
        ]


TYPED = {
    "bool": ("true", True),
    "smallint": ("-1", -1),
    "bigint": ("9223372036854775807", 2**63 - 1),
    "real": ("1.5", 1.5),
    "double precision": ("0.1", 0.1),
    "numeric": ("123.450", "123.450"),
    "numeric(10, 2)": ("'NaN'", "NaN"),
    "text": ("'grüße'", "grüße"),
    "char(5)": ("'ab'", "ab   "),
    "bytea": ("'\\x00ff'", "AP8="),
    "uuid": (
        "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ),
    "date": ("'2024-02-29'", "2024-02-29"),
    "time": ("'23:59:59.5'", "23:59:59.5"),
    "timestamp": ("'2024-02-29 01:02:03'", "2024-02-29 01:02:03"),
    "timestamptz": ("'2024-02-29 01:02:03+02'", "2024-02-28 23:02:03+00"),
    "json": ("'{\"a\": 1}'", '{"a": 1}'),
    "jsonb": ("'{\"a\":1}'", '{"a": 1}'),
    "int[]": ("'{1,NULL,3}'", "{1,NULL,3}"),
    "int4range": ("'[1,5]'", "[1,6)"),
    "interval": ("'1 day 2 hours'", "P1DT2H"),
}


def test_snapshot_and_stream_have_the_same_values_of_all_types(
    uri: str, db: Database, schema: str
) -> None:
    columns = ", ".join(f"c{i} {name}" for i, name in enumerate(TYPED))
    values = ", ".join(text for text, _ in TYPED.values())
    db.run(f"CREATE TYPE {schema}.mood AS ENUM ('sad', 'ok')")
    db.run(f"CREATE TABLE {schema}.typed (id int PRIMARY KEY, {columns}, m {schema}.mood)")
    expected = {f"c{i}": value for i, (_, value) in enumerate(TYPED.values())} | {"m": "ok"}
    with capture(uri, f"{schema}.typed") as reader:
        db.run(
            f"INSERT INTO {schema}.typed VALUES (1, {values}, 'ok')",
            f"INSERT INTO {schema}.typed VALUES (2)",
        )
        with reader.snapshot() as snapshot:
            changes = list(snapshot.rows())
        assert read(reader, snapshot.position) == []
        db.run(f"UPDATE {schema}.typed SET m = m")
        (transaction,) = read(reader, snapshot.position)
        nulls = dict.fromkeys(expected)
        for each, (first, second) in (("r", changes), ("u", transaction.changes)):
            assert [flat_values(first), flat_values(second)] == [
                {"id": 1, **expected, "__op": each},
                {"id": 2, **nulls, "__op": each},
            ]
        assert [c.after for c in changes] == [c.after for c in transaction.changes]
        assert changes[0].relation == transaction.changes[0].relation


def flat_values(change: RowChange) -> dict[str, Any]:
    (flat,) = FlatRows().change_rows(change, lsn=Lsn(1), ts_ms=1)
    return {name: value for name, value in flat.row.items() if name not in ("__lsn", "__ts")}


@pytest.mark.parametrize(
    ("type_oid", "kind", "text"),
    [
        (DATE, "date", "0044-03-15 BC"),
        (DATE, "date", "0001-02-28 BC"),
        (TIMESTAMP, "timestamp", "12345-01-01 00:00:00"),
        (TIMESTAMP, "timestamp", "4713-01-01 00:00:00.000001 BC"),
        (TIMESTAMPTZ, "timestamptz", "1800-01-01 00:00:00+00:53:28"),
    ],
)
def test_dates_outside_of_pythons_years_count_as_postgresql_counts_them(
    db: Database, type_oid: int, kind: str, text: str
) -> None:
    ((micros,),) = db.rows(
        f"SELECT (extract(epoch FROM '{text}'::{kind}) * 1000000)::bigint AS micros"
    )
    unit = 86_400_000_000 if type_oid == DATE else 1
    assert typed_value(type_oid, text) == micros // unit


def test_a_transaction_that_is_open_during_the_snapshot_is_streamed(
    uri: str, db: Database, schema: str
) -> None:
    """One commits between slot and snapshot, one is open during it, and one follows."""
    with capture(uri, f"{schema}.t") as reader, closing(Database(uri)) as other:
        db.run(f"INSERT INTO {schema}.t VALUES (1, 'before')")
        with closing(other._connection.cursor()) as cursor:
            cursor.execute(f"INSERT INTO {schema}.t VALUES (2, 'open')")
        db.run(f"INSERT INTO {schema}.t VALUES (3, 'before')")
        with reader.snapshot() as snapshot:
            other._connection.commit()
            db.run(f"INSERT INTO {schema}.t VALUES (4, 'after')")
            rows = [change.after for change in snapshot.rows()]
        assert rows == [("1", "before"), ("3", "before")]
        assert shown(read(reader, snapshot.position)) == [
            [("c", None, ("2", "open"))],
            [("c", None, ("4", "after"))],
        ]


def test_a_column_is_not_dropped_while_a_snapshot_is_open(
    uri: str, db: Database, schema: str
) -> None:
    db.run(f"INSERT INTO {schema}.t VALUES (1, 'a')")
    with capture(uri, f"{schema}.t") as reader:
        with reader.snapshot() as snapshot:
            with pytest.raises(Exception, match="lock timeout"):
                db.run("SET LOCAL lock_timeout = '10ms'", f"ALTER TABLE {schema}.t DROP COLUMN v")
            db._connection.rollback()
            assert [change.after for change in snapshot.rows()] == [("1", "a")]
        db.run(f"ALTER TABLE {schema}.t DROP COLUMN v")


def test_visibility_follows_the_snapshot_across_xid_wraparound() -> None:
    visible = VisibleTransactions(text="4294967294:4294967300:4294967294", end_lsn=Lsn(100))
    before = Lsn(50)
    assert not visible.contains(4294967294, before)
    assert visible.contains(4294967295, before)
    assert visible.contains(3, before)
    assert not visible.contains(4, before)
    assert not visible.contains(3, Lsn(100))


def test_ranges_of_a_table_are_dropped_together() -> None:
    first, second, other = (
        SnapshotRange(
            table=table, after=after, visible=VisibleTransactions(text="1:1:", end_lsn=Lsn(end))
        )
        for table, after, end in (("t", None, 10), ("t", ("5",), 20), ("u", None, 10))
    )
    position = CdcPosition(lsn=Lsn(1), ranges=(first, second, other))
    assert position.at(Lsn(15)).ranges == (first, second)
    assert position.at(Lsn(20)).ranges == ()


def test_a_heartbeat_moves_an_idle_position_and_no_other(
    uri: str, db: Database, schema: str
) -> None:
    with capture(uri, f"{schema}.t") as reader:
        position = start(reader)
        db.run(f"CREATE TABLE {schema}.unrelated AS SELECT generate_series(1, 1000)")
        moved = reader.heartbeat(position)
        assert moved.lsn > position.lsn
        reader.close()
        reader.confirm(moved)
        assert reader.status().confirmed_flush_lsn == moved.lsn
        db.run(f"INSERT INTO {schema}.t VALUES (1, 'a')")
        assert reader.heartbeat(moved) == moved
        assert shown(read(reader, moved)) == [[("c", None, ("1", "a"))]]


@pytest.mark.parametrize("seed", range(3))
def test_a_random_workload_replayed_equals_the_tables(
    uri: str, db: Database, schema: str, seed: int
) -> None:
    """Two writers, a snapshot in between, and reads that are sometimes not confirmed."""
    db.run(f"CREATE TABLE {schema}.u (id int PRIMARY KEY, v text)")
    tables = (f"{schema}.t", f"{schema}.u")
    with capture(uri, *tables) as reader:
        writers = [
            threading.Thread(target=write, args=(uri, tables, 1000 * seed + number, number))
            for number in range(2)
        ]
        for writer in writers:
            writer.start()
        replayed: dict[str, dict[Any, Any]] = {table: {} for table in tables}
        flat = FlatRows(TableKeys())
        with reader.snapshot() as snapshot:
            for change in snapshot.rows():
                for row in flat.change_rows(change, lsn=Lsn(0), ts_ms=0):
                    replay(replayed, row)
        position, chance = snapshot.position, random.Random(seed)
        is_complete = False
        while True:
            transactions, end = reader.read(
                position,
                max_changes=chance.choice((1, 10, 100)),
                max_transaction_changes=chance.choice((1, 2, 100)),
            )
            for transaction in transactions:
                for row in flat.transaction_rows(transaction):
                    replay(replayed, row)
            position = end
            if chance.random() < 0.3:
                reader.confirm(position)
            if chance.random() < 0.3:
                reader.close()
            if not transactions and is_complete:
                break
            is_complete = not any(writer.is_alive() for writer in writers)
        for writer in writers:
            writer.join()
        for table in tables:
            assert replayed[table] == dict(db.rows(f"SELECT id, v FROM {table}"))


def write(uri: str, tables: tuple[str, ...], seed: int, number: int) -> None:
    """Change rows that no other writer changes."""
    chance = random.Random(seed)
    with closing(Database(uri)) as database:
        for _ in range(60):
            statements = [
                one_statement(chance, chance.choice(tables), number)
                for _ in range(chance.randint(1, 4))
            ]
            if chance.random() < 0.1:
                database.roll_back(statements[0])
            else:
                database.run(*statements)


def one_statement(chance: random.Random, table: str, number: int) -> str:
    first, second = (2 * chance.randrange(20) + number for _ in range(2))
    value = chance.randrange(1000)
    match chance.randrange(4):
        case 0:
            return f"DELETE FROM {table} WHERE id = {first}"
        case 1:
            unless = f"NOT EXISTS (SELECT 1 FROM {table} WHERE id = {second})"
            return f"UPDATE {table} SET id = {second} WHERE id = {first} AND {unless}"
        case _:
            return (
                f"INSERT INTO {table} VALUES ({first}, '{value}') "
                "ON CONFLICT (id) DO UPDATE SET v = excluded.v"
            )


def replay(tables: dict[str, dict[Any, Any]], flat: Any) -> None:
    """Apply a row; one that is already there, or missing, would be a change twice or lost."""
    table, key = tables[f"{flat.relation.namespace}.{flat.relation.name}"], flat.key["id"]
    match flat.row["__op"]:
        case "c" | "r":
            assert key not in table
            table[key] = flat.row["v"]
        case "u":
            assert key in table
            table[key] = flat.row["v"]
        case "d":
            del table[key]


def test_wal_level_must_be_logical() -> None:
    with postgresql.server() as address:
        reader = CdcReader(address, tables=["t"], slot="s", publication="p")
        assert refusal(reader.create, CaptureRefused) == (
            "wal_level is replica, not logical: "
            "set wal_level = logical in postgresql.conf and restart PostgreSQL"
        )


def refusal(call: Any, kind: type[HeadwaterError]) -> str:
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_user_needs_the_replication_right(uri: str, db: Database, schema: str) -> None:
    db.run("CREATE ROLE reader LOGIN")
    try:
        other = uri.replace("postgres@", "reader@")
        reader = CdcReader(other, tables=[f"{schema}.t"], slot="s", publication="p")
        assert refusal(reader.create, CaptureRefused) == (
            "user reader has no replication right: ALTER ROLE reader REPLICATION"
        )
        db.run("ALTER ROLE reader REPLICATION")
        assert "no right to read table" in refusal(reader.create, CaptureRefused)
        db.run(
            f"GRANT USAGE ON SCHEMA {schema} TO reader",
            f"GRANT SELECT ON {schema}.t TO reader",
        )
        assert "missing right: permission denied for database" in refusal(
            reader.create, CaptureRefused
        )
    finally:
        db.run("DROP OWNED BY reader", "DROP ROLE reader")


def test_tables_need_a_primary_key_and_a_replica_identity(
    uri: str, db: Database, schema: str
) -> None:
    db.run(f"CREATE TABLE {schema}.keyless (id int)")

    def create(table: str) -> Any:
        return CdcReader(uri, tables=[table], slot="s", publication="p").create

    assert refusal(create(f"{schema}.nope"), CaptureRefused) == f"there is no table {schema}.nope"
    assert "has no primary key" in refusal(create(f"{schema}.keyless"), CaptureRefused)
    db.run(f"ALTER TABLE {schema}.t REPLICA IDENTITY NOTHING")
    assert "REPLICA IDENTITY NOTHING" in refusal(create(f"{schema}.t"), CaptureRefused)
    assert db.rows("SELECT count(*) FROM pg_publication") == [(0,)]


def test_a_publication_must_have_the_tables(uri: str, db: Database, schema: str) -> None:
    db.run(f"CREATE TABLE {schema}.other (id int PRIMARY KEY)")
    with capture(uri, f"{schema}.t") as reader:
        name = reader._publication
        wider = CdcReader(
            uri, tables=[f"{schema}.t", f"{schema}.other"], slot=name, publication=name
        )
        assert refusal(wider.check, CaptureRefused) == (
            f"publication {name} does not have table {schema}.other: "
            f"ALTER PUBLICATION {name} ADD TABLE {schema}.other"
        )
        missing = CdcReader(uri, tables=[f"{schema}.t"], slot=name, publication="nope")
        assert "no publication nope" in refusal(missing.check, CaptureRefused)


def test_a_missing_slot_is_lost(uri: str, schema: str) -> None:
    with capture(uri, f"{schema}.t") as reader:
        position = start(reader)
        publication = reader._publication
        missing = CdcReader(uri, tables=[f"{schema}.t"], slot="nope", publication=publication)
        assert "no replication slot nope" in refusal(missing.check, SlotLost)
        text = refusal(lambda: missing.read(position), SlotLost)
        assert text.startswith("there is no replication slot nope")


def test_a_killed_server_is_unavailable_and_reading_continues_where_it_was() -> None:
    with postgresql.killable_server(wal_level="logical") as server:
        with closing(Database(server.uri)) as db:
            db.run("CREATE TABLE t (id int PRIMARY KEY)")
        with CdcReader(server.uri, tables=["t"], slot="s", publication="s") as reader:
            reader.create()
            position = start(reader)
            with closing(psycopg.connect(server.uri, autocommit=True)) as connection:
                connection.execute("INSERT INTO t VALUES (1)")
                transactions, position = reader.read(position)
                assert len(transactions) == 1
                connection.execute("INSERT INTO t VALUES (2)")
                stream = reader.stream._stream
                assert stream is not None
                server.kill()
                refusal(partial(drain, stream), DatabaseUnavailable)
                with pytest.raises(DatabaseUnavailable), refusals("s"):
                    connection.execute("SELECT 1")
            refusal(lambda: reader.read(position), DatabaseUnavailable)
            server.start()
            assert shown(read(reader, position)) == [[("c", None, ("2",))]]


def drain(stream: ReplicationStream) -> None:
    while True:
        stream.read()


@pytest.mark.parametrize("sqlstate", ["08006", "57P01", "57P03", None])
def test_a_lost_connection_is_no_refusal(sqlstate: str | None) -> None:
    assert isinstance(slot_refusal("s", sqlstate, "gone"), DatabaseUnavailable)


def test_a_slot_whose_log_was_removed_is_lost() -> None:
    with (
        postgresql.server(
            wal_level="logical", max_slot_wal_keep_size="1MB", max_wal_size="32MB"
        ) as address,
        closing(Database(address)) as db,
    ):
        db.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
        reader = CdcReader(address, tables=["t"], slot="s", publication="p")
        reader.create()
        position = start(reader)
        reader.close()
        with closing(psycopg.connect(address, autocommit=True)) as connection:
            for number in range(4):
                connection.execute(f"INSERT INTO t VALUES ({number})")
                connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
        assert refusal(lambda: reader.read(position), SlotLost) == (
            "replication slot s has lost its write-ahead log: drop it, create it and take a new "
            "snapshot"
        )
        reader.drop()
        reader.create()
        with reader.snapshot() as snapshot:
            assert len(list(snapshot.rows())) == 4
        reader.close()


def test_a_slot_that_another_process_reads_is_in_use(uri: str, schema: str) -> None:
    folder = postgresql.programs()
    assert folder is not None
    program = folder / "pg_recvlogical"
    if not program.exists():
        pytest.skip("there is no pg_recvlogical here")
    with capture(uri, f"{schema}.t") as reader:
        name = reader._slot
        position = start(reader)
        options = ["-o", "proto_version=1", "-o", f"publication_names={name}"]
        other = subprocess.Popen(
            [program, "-d", uri, "--slot", name, "--start", "-f", "-", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + 60
            while not reader.status().is_active:
                assert time.monotonic() < deadline
                assert other.poll() is None
            assert refusal(reader.check, SlotInUse) == (
                f"replication slot {name} is in use by another process"
            )
            hasty = CdcReader(
                uri, tables=[f"{schema}.t"], slot=name, publication=name, slot_patience_s=0
            )
            text = refusal(lambda: hasty.read(position), SlotInUse)
            assert text.startswith(f"replication slot {name} is in use by another process: ")
            assert refusal(hasty.drop, SlotInUse) == text
            # PostgreSQL releases the slot when it notices the end of the connection.
            Timer(1, other.terminate).start()
            reader.drop()
        finally:
            other.terminate()
            other.wait(timeout=60)


def test_a_failed_slot_leaves_no_publication(uri: str, db: Database, schema: str) -> None:
    with capture(uri, f"{schema}.t") as reader:
        again = CdcReader(uri, tables=[f"{schema}.t"], slot=reader._slot, publication="another")
        assert "already exists" in refusal(again.create, CaptureRefused)
        found = db.rows("SELECT count(*) FROM pg_publication WHERE pubname = 'another'")
        assert found == [(0,)]
