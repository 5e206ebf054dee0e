"""Debezium's change events in Avro, with a real registry and a real PostgreSQL."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro
import psycopg
import pyarrow as pa
import pytest

from headwater.client.avro import AvroDeserializer
from headwater.client.schema_registry import SchemaRegistry
from headwater.common.exceptions import HeadwaterError
from headwater.connect.connector import Position
from headwater.connect.connector_registry import open_sink
from headwater.connect.postgresql_cdc.avro_events import SchemaRefused
from headwater.connect.postgresql_cdc.avro_schemas import NoAvroName, key_schema, value_schema
from headwater.connect.postgresql_cdc.cdc_connector import PostgresqlCdcSource
from headwater.connect.postgresql_cdc.column_types import INT4, NUMERIC, TEXT
from headwater.connect.postgresql_cdc.pgoutput import Relation, RelationColumn, ReplicaIdentity
from headwater.spark.exceptions import InvalidOption
from headwater.spark.sink.exactly_once import BatchIdentity
from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests import postgresql

TOPIC = "p.public.orders"
CREATE = (
    "CREATE TABLE orders (id int PRIMARY KEY, name text, big bigint, ok bool, f4 real, f8 float8, "
    "price numeric(10, 2), raw bytea, d date, t time, ts timestamp, tz timestamptz, u uuid, "
    "j json, a int[])"
)
INSERT = (
    "INSERT INTO orders VALUES (1, 'ü', 9007199254740993, true, 1.5, 'NaN', 12.50, '\\x00ff', "
    "'2024-02-29', '12:34:56.789', '2024-02-29 12:34:56', '0044-03-15 12:00:00+00 BC', "
    "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"k\": [1]}', '{1,NULL,3}')"
)


def relation(*columns: RelationColumn) -> Relation:
    identity = ReplicaIdentity.DEFAULT
    return Relation(
        oid=1, namespace="public", name="orders", replica_identity=identity, columns=columns
    )


ID = RelationColumn(name="id", type_oid=INT4, is_key=True)


def test_schemas_have_debeziums_names_and_nullable_columns() -> None:
    found = value_schema("my-shop.public.1orders", relation(ID))
    assert (found["name"], found["namespace"]) == ("Envelope", "my_shop.public._1orders")
    before, after, source, *_ = found["fields"]
    row = before["type"][1]
    assert row["name"] == "Value"
    assert row["fields"] == [{"name": "id", "type": ["null", "int"], "default": None}]
    assert (after["type"], source["type"]["name"]) == (["null", "Value"], "Source")
    key = key_schema(TOPIC, relation(ID, RelationColumn(name="v", type_oid=TEXT)), ["id"])
    assert key["fields"] == [{"name": "id", "type": "int"}]
    for schema in (found, key):
        fastavro.parse_schema(schema)


def test_a_column_without_an_avro_name_is_refused() -> None:
    odd = RelationColumn(name="first name", type_oid=NUMERIC)
    assert refusal(lambda: value_schema(TOPIC, relation(ID, odd)), NoAvroName) == (
        "column 'first name' of table public.orders has a name that Avro does not allow: rename "
        "it, or set format=json"
    )


def refusal(action: Any, kind: type[HeadwaterError]) -> str:
    with pytest.raises(kind) as raised:
        action()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_options_of_avro_are_checked() -> None:
    good = {"uri": "postgresql://x", "table.include.list": "t", "topic.prefix": "p"}
    for given, expected in (
        ({"format": "avro"}, "the option schema.registry.url is missing"),
        ({"schema.registry.url": "http://x"}, "schema.registry.url is for format=avro"),
        ({"format": "avro", "envelope": "flat"}, "format=avro needs envelope=debezium"),
    ):
        text = refusal(lambda given=given: PostgresqlCdcSource({**good, **given}), InvalidOption)
        assert text.startswith(expected)
    flat = {"uri": "postgresql://x", "envelope": "flat", "schema.registry.url": "http://x"}
    assert "only events are Avro" in refusal(lambda: open_sink("postgresql", flat), InvalidOption)


@pytest.fixture(scope="module")
def registry_url() -> Iterator[str]:
    with EmbeddedBroker() as broker, EmbeddedRegistry(broker.bootstrap_servers) as registry:
        yield registry.url


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with postgresql.server(wal_level="logical") as address:
        yield address


def run(uri: str, *statements: str) -> None:
    with closing(psycopg.connect(uri, autocommit=True)) as connection:
        for statement in statements:
            connection.execute(statement)


class Capture:
    """A source and what it has read; each batch is applied to a target."""

    def __init__(self, uri: str, target: str, registry_url: str, folder: Path) -> None:
        self._source = PostgresqlCdcSource(
            {
                "uri": uri,
                "table.include.list": "public.orders",
                "slot.name": "avro",
                "topic.prefix": "p",
                "format": "avro",
                "schema.registry.url": registry_url,
                "spool": str(folder),
            }
        )
        options = {"uri": target, "envelope": "debezium", "schema.registry.url": registry_url}
        self._sink = open_sink("postgresql", {**options, "schema.evolution": "basic"})
        self._position: Position = {}
        self._batch_id = 0

    def read(self) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        while True:
            self._source.commit(self._position)
            end = json.loads(json.dumps(self._source.latest(self._position)))
            if end == self._position:
                return found
            batches = [
                batch
                for split in self._source.splits(self._position, end)
                for batch in self._source.read(split)
            ]
            found += batches
            if batches:
                self._sink.prepare(batches[0].schema)
                part = BatchIdentity(query_id="q", batch_id=self._batch_id, partition=0)
                self._sink.write(part, iter(batches))
                self._batch_id += 1
            self._position = end

    def close(self) -> None:
        self._source.close()
        self._source._reader.drop()


def rows(uri: str, columns: str = "orders.*") -> Any:
    with closing(psycopg.connect(uri)) as connection:
        # As text, since Python's dates have no years before Christ.
        return connection.execute(f"SELECT row({columns})::text FROM orders ORDER BY id").fetchall()


def test_events_have_registered_schemas_that_follow_the_table(
    uri: str, registry_url: str, tmp_path: Path
) -> None:
    run(uri, "CREATE DATABASE target", CREATE, INSERT)
    target = uri.replace("/postgres?", "/target?")
    run(target, CREATE)
    with (
        closing(SchemaRegistry(registry_url)) as registry,
        closing(Capture(uri, target, registry_url, tmp_path)) as capture,
    ):
        decode = AvroDeserializer(registry)
        snapshot = [row for batch in capture.read() for row in batch.to_pylist()]
        (first,) = [decode(each["value"]) for each in snapshot]
        assert decode(snapshot[0]["key"]) == {"id": 1}
        assert first["op"] == "r"
        assert first["after"]["raw"] == b"\x00\xff"
        assert first["after"]["price"] == "12.50"
        assert rows(target) == rows(uri)
        run(
            uri,
            "ALTER TABLE orders ADD COLUMN note text, DROP COLUMN name",
            "ALTER TABLE orders ALTER COLUMN id TYPE bigint",
            "INSERT INTO orders (id, note) VALUES (2, 'new'), (3, NULL)",
            "UPDATE orders SET raw = NULL WHERE id = 1",
            "DELETE FROM orders WHERE id = 3",
        )
        capture.read()
        names = "id, big, ok, f4, f8, price, raw, d, t, ts, tz, u, j, a, note"
        assert rows(target, names) == rows(uri, names)
        assert len(registry.versions(f"{TOPIC}-value")) == 2
        assert len(registry.versions(f"{TOPIC}-key")) == 2
        # An integer does not become a text under the compatibility BACKWARD.
        run(
            uri,
            "ALTER TABLE orders ALTER COLUMN big TYPE text",
            "INSERT INTO orders (id, big) VALUES (4, 'x')",
        )
        text = refusal(capture.read, SchemaRefused)
        assert text.startswith(f"the registry refuses the schema of topic {TOPIC}: ")
        registry.set_compatibility("NONE", f"{TOPIC}-value")
        run(target, "ALTER TABLE orders ALTER COLUMN big TYPE text")
        capture.read()
        assert rows(target, names) == rows(uri, names)
