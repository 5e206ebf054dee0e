"""Change feeds are reduced, and applied to a second database."""

import json
import os
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headwater.common.exceptions import HeadwaterError
from headwater.connect.connector import Position
from headwater.connect.connector_registry import open_sink
from headwater.connect.postgresql_cdc.cdc_connector import PostgresqlCdcSource
from headwater.connect.postgresql_cdc.change_feed import (
    COLUMN_TYPES,
    FeedRecord,
    MalformedChange,
    Truncation,
    reduce_feed,
    text_of,
)
from headwater.connect.postgresql_cdc.change_feed_writer import TargetRefused
from headwater.spark.exceptions import InvalidOption
from headwater.spark.sink.exactly_once import BatchIdentity
from tests import postgresql
from tests.cdc_workload import FedRecord, Load, Writer, check_order, checksum, create_tables


def change(operation: str, number: int, **columns: Any) -> FeedRecord:
    after = None if operation in "dt" else {"id": number, **columns}
    source = {"schema": "public", "table": "t"}
    event = {"op": operation, "after": after, "source": source}
    key = None if operation == "t" else b'{"id":%d}' % number
    return FeedRecord(topic="p.public.t", key=key, value=json.dumps(event).encode())


def reduced(*records: FeedRecord, **options: Any) -> list[Any]:
    steps = reduce_feed(records, **{"envelope": "debezium", "table": None, **options})
    return [
        step
        if isinstance(step, Truncation)
        else [(each.table, {key[0][1]: row for key, row in each.rows.items()}) for each in step]
        for step in steps
    ]


def test_the_last_change_of_a_key_wins() -> None:
    found = reduced(
        change("c", 1, v="a"),
        change("u", 1, v="b"),
        change("c", 2, v="c"),
        change("d", 2),
        FeedRecord(topic="p.public.t", key=b'{"id":2}', value=None),
        change("d", 3),
        change("r", 3, v="again"),
    )
    rows = {1: {"id": 1, "v": "b"}, 2: None, 3: {"id": 3, "v": "again"}}
    assert found == [[("public.t", rows)]]


def test_an_unavailable_value_comes_from_an_earlier_change_or_stays() -> None:
    missing = "__debezium_unavailable_value"
    found = reduced(
        change("c", 1, v="long", n=1), change("u", 1, v=missing, n=2), change("u", 2, v=missing)
    )
    assert found == [[("public.t", {1: {"id": 1, "v": "long", "n": 2}, 2: {"id": 2}})]]


def test_a_truncation_ends_the_changes_before_it() -> None:
    found = reduced(change("c", 1, v="a"), change("t", 0), change("c", 2, v="b"))
    assert found == [
        [("public.t", {1: {"id": 1, "v": "a"}})],
        Truncation("public.t", 0),
        [("public.t", {2: {"id": 2, "v": "b"}})],
    ]


def test_flat_rows_belong_to_the_table_of_their_topic() -> None:
    value = b'{"id":1,"v":"a","__op":"u","__lsn":5,"__ts":6}'
    record = FeedRecord(topic="a.b.public.t", key=b'{"id":1}', value=value)
    rows = {1: {"id": 1, "v": "a"}}
    assert reduced(record, envelope="flat") == [[("public.t", rows)]]
    assert reduced(record, envelope="flat", table="s.u") == [[("s.u", rows)]]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (FeedRecord(topic="t", key=b"1", value=b"{}"), "not a change"),
        (FeedRecord(topic="t", key=b"1", value=b"[1]"), "is not a JSON object"),
        (FeedRecord(topic="t", key=None, value=change("c", 1).value), "has no key"),
    ],
)
def test_records_that_are_no_changes_are_reported(record: FeedRecord, message: str) -> None:
    with pytest.raises(MalformedChange, match=message):
        reduced(record)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, "text", None),
        (True, "boolean", "true"),
        (0, "date", "1970-01-01"),
        (-719_163, "date", "0001-12-31 BC"),
        (2**31 - 1, "date", "infinity"),
        (1_500_000, "time without time zone", "00:00:01.500000"),
        (-1, "timestamp without time zone", "1969-12-31 23:59:59.999999"),
        (0, "timestamp with time zone", "1970-01-01 00:00:00+00"),
        ("1970-01-01T00:00:00Z", "timestamp with time zone", "1970-01-01T00:00:00Z"),
        ("-0043-03-15T12:00:00Z", "timestamp with time zone", "0044-03-15T12:00:00Z BC"),
        ("0000-01-01T00:00:00Z", "timestamp with time zone", "0001-01-01T00:00:00Z BC"),
        ("+12024-01-01T00:00:00Z", "timestamp with time zone", "12024-01-01T00:00:00Z"),
        ("-infinity", "timestamp with time zone", "-infinity"),
        ("AP8=", "bytea", "\\x00ff"),
        (b"\0\xff", "bytea", "\\x00ff"),
        (1e300, "double precision", "1e+300"),
        (7, "bigint", "7"),
        ("{1,2}", "integer[]", "{1,2}"),
    ],
)
def test_json_values_become_texts(value: Any, kind: str, expected: str | None) -> None:
    assert text_of(value, kind) == expected


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with postgresql.server(
        wal_level="logical", max_replication_slots="30", max_wal_senders="30"
    ) as address:
        yield address


@pytest.fixture
def target(uri: str, request: pytest.FixtureRequest) -> str:
    """A second database."""
    name = f"target{abs(hash(request.node.name)) % 10**8}"
    with closing(psycopg.connect(uri, autocommit=True)) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return uri.replace("/postgres?", f"/{name}?")


def run(uri: str, *statements: str) -> None:
    with closing(psycopg.connect(uri)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def feed(*records: FeedRecord) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([each.topic for each in records], pa.string()),
            "key": pa.array([each.key for each in records], pa.binary()),
            "value": pa.array([each.value for each in records], pa.binary()),
            "partition": pa.array([each.partition for each in records], pa.int32()),
            "headers": pa.array(
                [[{"key": COLUMN_TYPES, "value": each.types}] for each in records],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )


def write(uri: str, batch_id: int, *records: FeedRecord, **options: str) -> int:
    given = {name.replace("_", "."): text for name, text in options.items()}
    sink = open_sink("postgresql", {"uri": uri, "envelope": "debezium", **given})
    batch = feed(*records)
    sink.prepare(batch.schema)
    return sink.write(BatchIdentity(query_id="q", batch_id=batch_id, partition=0), iter([batch]))


def test_a_part_of_a_feed_is_applied_once(target: str) -> None:
    run(target, "CREATE TABLE t (id int PRIMARY KEY, v text)")
    assert write(target, 0, change("c", 1, v="a"), change("c", 2, v="b")) == 2
    assert write(target, 1, change("d", 1)) == 1
    assert write(target, 0, change("c", 1, v="a"), change("c", 2, v="b")) == 0
    assert rows(target, "SELECT * FROM t") == [(2, "b")]
    write(target, 2, change("t", 0), change("c", 3, v="c"))
    assert rows(target, "SELECT * FROM t") == [(3, "c")]


def rows(uri: str, statement: str) -> list[Any]:
    with closing(psycopg.connect(uri)) as connection:
        return connection.execute(statement).fetchall()


def refusal(action: Any, kind: type[HeadwaterError]) -> str:
    with pytest.raises(kind) as raised:
        action()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_what_the_target_refuses_is_one_line_and_leaves_nothing(target: str) -> None:
    text = refusal(lambda: write(target, 0, change("c", 1)), TargetRefused)
    assert text.startswith("the target has no table public.t: create it")
    run(target, "CREATE TABLE t (id int, v varchar(3))")
    text = refusal(lambda: write(target, 0, change("c", 1)), TargetRefused)
    assert text == "table public.t of the target has no primary key"
    run(target, "ALTER TABLE t ADD PRIMARY KEY (id)")
    too_long = (change("c", 1, v="abc"), change("c", 2, v="abcd"))
    assert refusal(lambda: write(target, 0, *too_long), TargetRefused) == (
        "table public.t, column v of the target: value too long for type character varying(3)"
    )
    assert rows(target, "SELECT * FROM t") == []
    text = refusal(lambda: write(target, 0, change("c", 1, w=1)), TargetRefused)
    assert text.startswith("table public.t of the target has no column w: add it")
    write(target, 0, change("c", 1, w="x"), schema_evolution="basic")
    assert rows(target, "SELECT id, w FROM t") == [(1, "x")]
    run(target, "ALTER TABLE t ADD COLUMN n int, ADD COLUMN d numeric(3, 1) CHECK (d < 50)")
    for name, value, expected in (
        ("n", 2**31, ', column n of the target: value "2147483648" is out of range for type'),
        ("n", "many", ', column n of the target: invalid input syntax for type integer: "many"'),
        ("d", "123.4", ", column d of the target: numeric field overflow"),
        ("d", "60", ' of the target: new row for relation "t" violates check constraint'),
    ):
        unfit = change("c", 2, **{name: value})
        text = refusal(partial(write, target, 1, unfit), TargetRefused)
        assert text.startswith(f"table public.t{expected}")
    mood = replace(change("c", 2, m="glad"), types=b'{"m": "mood"}')
    text = refusal(lambda: write(target, 1, mood, schema_evolution="basic"), TargetRefused)
    assert text == "the target has no type mood for column m of table public.t: create it"
    run(target, "CREATE TYPE mood AS ENUM ('glad')")
    write(target, 1, mood, schema_evolution="basic")
    assert rows(target, "SELECT id, m FROM t ORDER BY id") == [(1, None), (2, "glad")]
    moved = FeedRecord(topic="t", key=None, value=change("t", 0).value, partition=1)
    text = refusal(lambda: write(target, 2, moved), TargetRefused)
    assert "has no order among several partitions" in text


def test_options_of_a_feed_are_checked() -> None:
    good = {"uri": "postgresql://x", "envelope": "flat"}
    with pytest.raises(InvalidOption, match="no option key"):
        open_sink("postgresql", {**good, "key": "id"})
    with pytest.raises(InvalidOption, match="set envelope too"):
        open_sink("postgresql", {"uri": "postgresql://x", "schema.evolution": "basic"})


class MirrorInMemory:
    """A topic that stores batches with their position, as an exactly-once sink does."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._source: PostgresqlCdcSource | None = None
        self.committed: Position = {}
        # Planned and not committed, as in Spark's log of offsets.
        self.planned: Position | None = None
        self.records: list[FedRecord] = []

    def crash(self) -> None:
        if self._source is not None:
            self._source.close()
        self._source = None

    def step(self, chance: random.Random) -> bool:
        """Run a batch with crashes at random points; return whether there was something new."""
        if self._source is None:
            self._source = PostgresqlCdcSource(self._options)
        source = self._source
        if self.planned is None:
            source.commit(self.committed)
            end = json.loads(json.dumps(source.latest(self.committed)))
            if chance.random() < 0.15:
                self.crash()
                return True
            if end == self.committed:
                return False
            self.planned = end
        if chance.random() < 0.15:
            self.crash()
            return True
        found = [
            FedRecord(
                row["topic"],
                row["key"],
                row["value"],
                {each["key"]: each["value"] for each in row["headers"]},
            )
            for split in source.splits(self.committed, self.planned)
            for batch in source.read(split)
            for row in batch.to_pylist()
        ]
        self.records += found
        self.committed, self.planned = self.planned, None
        if chance.random() < 0.15:
            self.crash()
        return True


def test_a_random_workload_is_mirrored_through_crashes(
    uri: str, target: str, tmp_path: Path
) -> None:
    seed = int(os.environ.get("HEADWATER_SEED") or random.randrange(10**6))
    print(f"seed {seed}: HEADWATER_SEED={seed} repeats it")
    schema = f"mirror{seed}"
    tables = create_tables(uri, schema)
    create_tables(target, schema)
    chance = random.Random(seed)
    mirror = MirrorInMemory(
        {
            "uri": uri,
            "table.include.list": ",".join(tables),
            "slot.name": schema,
            "topic.prefix": "p",
            "maxRowsPerTrigger": str(chance.choice((3, 20, 1000))),
            "maxTransactionRows": str(chance.choice((3, 20, 1000))),
            "column.propagate.source.type": "true",
            "spool": str(tmp_path),
        }
    )
    writers: list[threading.Thread] = [
        Writer(uri, tables, seed=seed + each, transactions=60, load=Load(ddl=0 if each else 0.06))
        for each in range(3)
    ]
    Writer(uri, tables, seed=seed, transactions=20, load=Load()).run()
    try:
        # The slot exists and the snapshot has begun before most of the work is done.
        while not mirror.committed:
            mirror.step(chance)
        for writer in writers:
            writer.start()
        while mirror.step(chance) or any(each.is_alive() for each in writers):
            pass
        while mirror.step(chance):
            pass
    finally:
        mirror.crash()
        for writer in writers:
            if writer.ident is not None:
                writer.join()
    assert check_order(mirror.records)
    fed = [
        FeedRecord(
            topic=each.topic,
            key=each.key,
            value=each.value,
            types=each.headers.get(COLUMN_TYPES),
        )
        for each in mirror.records
    ]
    apply_feed(target, fed, chance)
    for table in tables:
        columns = [row[0] for row in rows(uri, COLUMNS.format(*table.split(".")))]
        ordered = f"SELECT {', '.join(columns)} FROM {table} ORDER BY part, id"
        # Rows tell more than checksums, where they differ.
        assert rows(target, ordered) == rows(uri, ordered)
        assert checksum(target, table, columns) == checksum(uri, table, columns), table


COLUMNS = (
    "SELECT column_name FROM information_schema.columns "
    "WHERE table_schema = '{}' AND table_name = '{}'"
)


def apply_feed(uri: str, records: list[FeedRecord], chance: random.Random) -> None:
    """Write batches, some of them twice."""
    sink = open_sink(
        "postgresql", {"uri": uri, "envelope": "debezium", "schema.evolution": "basic"}
    )
    sink.prepare(feed().schema)
    start, batch_id = 0, 0
    while start < len(records):
        size = chance.randint(1, 200)
        piece = records[start : start + size]
        batch = feed(*piece)
        for _ in range(chance.randint(1, 2)):
            part = BatchIdentity(query_id="q", batch_id=batch_id, partition=0)
            sink.write(part, iter([batch]))
        start, batch_id = start + size, batch_id + 1
