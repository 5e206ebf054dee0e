"""PostgreSQL's changes through Spark into topics, exactly once."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.connect.import_export import Running, import_rows
from headwater.connect.postgresql_cdc.cdc_reader import CdcReader
from headwater.testing import EmbeddedBroker
from tests import postgresql
from tests.spark.pipelines import make, read, run_once
from tests.spark.queries import run_to_its_end
from tests.spark.test_connect import forget_last_batch, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgresql.server(wal_level="logical") as uri:
        yield uri


def slot_position(uri: str, name: str) -> int:
    return CdcReader(uri, tables=["t"], slot=name, publication=name).status().confirmed_flush_lsn


def test_snapshot_and_changes_are_imported_once_and_the_slot_follows(
    spark: "SparkSession", spark_broker: EmbeddedBroker, database: str, tmp_path: Path
) -> None:
    prefix = f"shop{uuid.uuid4().hex[:8]}"
    run(database, "CREATE TABLE orders (id int PRIMARY KEY, v text)")
    run(database, "CREATE TABLE notes (a int, b text, PRIMARY KEY (b, a))")
    options = {
        "uri": database,
        "table.include.list": "orders,public.notes",
        "slot.name": prefix,
        "topic.prefix": prefix,
        "maxRowsPerTrigger": "10",
        "spool": str(tmp_path / "spool"),
    }

    def bring_in() -> None:
        run_to_its_end(
            lambda: import_rows(
                spark,
                "postgresql-cdc",
                options,
                bootstrap_servers=spark_broker.bootstrap_servers,
                topic=prefix,
                running=Running(checkpoint=str(tmp_path / "in")),
            )
        )

    run(database, "INSERT INTO orders SELECT n, 'v' FROM generate_series(1, 25) n")
    run(database, "INSERT INTO notes VALUES (1, 'x')")
    make(spark_broker, f"{prefix}.public.orders", f"{prefix}.public.notes")
    bring_in()
    confirmed = slot_position(database, prefix)
    run(database, "UPDATE orders SET v = 'w' WHERE id <= 5")
    run(database, "DELETE FROM orders WHERE id = 25")
    bring_in()
    forget_last_batch(tmp_path / "in")
    run(database, "INSERT INTO notes VALUES (2, 'y')")
    bring_in()
    assert slot_position(database, prefix) > confirmed
    orders = read(spark_broker, f"{prefix}.public.orders")
    seen = [
        (each.key, None if each.value is None else json.loads(each.value)["op"]) for each in orders
    ]
    expected = [(n, "r") for n in range(1, 26)] + [(n, "u") for n in range(1, 6)]
    deleted = b'{"id":25}'
    assert sorted(seen, key=str) == sorted(
        [(b'{"id":%d}' % n, op) for n, op in expected] + [(deleted, "d"), (deleted, None)], key=str
    )
    for number in (1, 25):
        own = [op for key, op in seen if key == b'{"id":%d}' % number]
        assert own == (["r", "u"] if number == 1 else ["r", "d", None])
    notes = read(spark_broker, f"{prefix}.public.notes")
    assert sorted(each.key or b"" for each in notes) == [b'{"a":1,"b":"x"}', b'{"a":2,"b":"y"}']
    assert {name for name, _ in notes[0].headers} >= {"__commit_lsn"}


PIPELINE = """\
version: 1
name: cdc
checkpoint: ck
sources:
  changes:
    connector: postgresql-cdc
    uri: {uri}
    table.include.list: stock
    slot.name: {slot}
    topic.prefix: {slot}
    envelope: flat
    spool: {folder}/spool
sinks:
  - {{from: changes, markerTopic: {slot}.public.stock}}
"""


@pytest.mark.spark
def test_a_pipeline_writes_changes_to_a_topic_per_table(
    spark: "SparkSession", spark_broker: EmbeddedBroker, database: str, tmp_path: Path
) -> None:
    slot = f"stock{uuid.uuid4().hex[:8]}"
    run(database, "CREATE TABLE stock (id int PRIMARY KEY, v text)")
    run(database, "INSERT INTO stock VALUES (1, 'a')")
    make(spark_broker, f"{slot}.public.stock", partitions=1)
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.format(uri=database, slot=slot, folder=tmp_path), encoding="utf-8")
    for statement in ("UPDATE stock SET v = 'b'", "DELETE FROM stock"):
        (life,) = run_once(spark, spark_broker, file, tmp_path / "checkpoints")
        assert life.error is None
        run(database, statement)
    run_once(spark, spark_broker, file, tmp_path / "checkpoints")
    found = read(spark_broker, f"{slot}.public.stock")
    values = [None if each.value is None else json.loads(each.value) for each in found]
    assert [None if each is None else (each["__op"], each["v"]) for each in values] == [
        ("r", "a"),
        ("u", "b"),
        ("d", None),
        None,
    ]
    assert {each.key for each in found} == {b'{"id":1}'}
