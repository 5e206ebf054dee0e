"""Pipelines that write to tables of Delta and Iceberg, merge changes into them and read them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.pipelines.check.checked_pipeline import read_file
from headwater.pipelines.tables.compaction import _optimize, tables_of
from headwater.pipelines.tables.iceberg_table import IcebergTable
from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import make, run_once, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAD = """\
version: 1
name: {name}
sources:
  orders:
    subscribe: {name}
    startingOffsets: earliest
    decode: {{value: {{json: "{schema}"}}}}
"""
SCHEMA = "id bigint, customer string, at timestamp, op string"
ROWS: list[dict[str, object]] = [
    {"id": 1, "customer": "a", "at": "2026-01-01T00:00:00Z", "op": "c"},
    {"id": 2, "customer": "b", "at": "2026-01-02T00:00:00Z", "op": "c"},
    {"id": 3, "customer": "a", "at": "2026-01-02T00:00:00Z", "op": "c"},
]
CHANGES: list[dict[str, object]] = [
    {"id": 2, "customer": "B", "at": "2026-01-03T00:00:00Z", "op": "u"},
    {"id": 2, "customer": "BB", "at": "2026-01-03T00:00:00Z", "op": "u"},
    {"id": 3, "customer": None, "at": None, "op": "d"},
    {"id": 4, "customer": "d", "at": "2026-01-03T00:00:00Z", "op": "c"},
    {"id": 5, "customer": "e", "at": "2026-01-03T00:00:00Z", "op": "c"},
    {"id": 5, "customer": None, "at": None, "op": "d"},
]


class Lake:
    """A folder, in which a table of either format is written and read."""

    def __init__(self, kind: str, folder: Path, spark: "SparkSession") -> None:
        self.kind, self.folder, self.spark = kind, folder, spark
        self.catalog = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }

    def words(self) -> str:
        if self.kind == "delta":
            return f"format: delta, path: {self.folder}/table"
        return f"format: iceberg, table: lake.orders, catalog: {json.dumps(self.catalog)}"

    def rows(self) -> list[dict[str, object]]:
        if self.kind == "delta":
            found = self.spark.read.format("delta").load(f"{self.folder}/table").collect()
            rows = [each.asDict() for each in found]
        else:
            table = IcebergTable(name="lake.orders", catalog=self.catalog)
            rows = table.load().scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: row["id"])

    def commits(self) -> int:
        if self.kind == "delta":
            return len(list((self.folder / "table" / "_delta_log").glob("*.json")))
        return len(IcebergTable(name="lake.orders", catalog=self.catalog).load().snapshots())


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, spark: "SparkSession") -> Lake:
    return Lake(request.param, tmp_path, spark)


def _pipeline(lake: Lake, name: str, more: str = "", schema: str = SCHEMA, sql: str = "") -> Path:
    step = f'steps:\n  shown: {{sql: "{sql}"}}\n' if sql else ""
    source = "shown" if sql else "orders"
    text = HEAD.format(name=name, schema=schema) + step
    text += f"sinks:\n  - {{from: {source}, name: sink, {lake.words()}{more}}}\n"
    file = lake.folder / "pipeline.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def _run(lake: Lake, broker: EmbeddedBroker, file: Path, checkpoint: str = "ck") -> str | None:
    (life,) = run_once(lake.spark, broker, file, lake.folder / checkpoint)
    return life.error


def _send(broker: EmbeddedBroker, topic: str, rows: list[dict[str, object]]) -> None:
    send(broker, topic, [(str(each["id"]), json.dumps(each)) for each in rows])


def _short(rows: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(each["id"], each["customer"]) for each in rows]


def test_rows_are_appended_and_a_repeated_batch_is_skipped(
    lake: Lake, spark_broker: EmbeddedBroker
) -> None:
    topic = f"append-{lake.kind}"
    make(spark_broker, topic)
    _send(spark_broker, topic, ROWS)
    by = "[customer]" if lake.kind == "delta" else "[day(at), customer]"
    file = _pipeline(lake, topic, f", partition_by: {by}")
    assert _run(lake, spark_broker, file) is None
    assert _short(lake.rows()) == [(1, "a"), (2, "b"), (3, "a")]
    # As after a crash between the table's commit and Spark's.
    commits = lake.folder / "ck" / topic / "sink" / "commits"
    for each in commits.iterdir():
        each.unlink()
    written = lake.commits()
    assert _run(lake, spark_broker, file) is None
    assert _short(lake.rows()) == [(1, "a"), (2, "b"), (3, "a")]
    assert lake.commits() == written
    _send(spark_broker, topic, [{"id": 4, "customer": "d", "at": None, "op": "c"}])
    assert _run(lake, spark_broker, file) is None
    assert _short(lake.rows())[3:] == [(4, "d")]


def test_changes_are_merged_once(lake: Lake, spark_broker: EmbeddedBroker) -> None:
    topic = f"merge-{lake.kind}"
    make(spark_broker, topic)
    _send(spark_broker, topic, ROWS)
    merge = (
        ", mode: update, merge: {keys: [id], apply_as_deletes: op = 'd', except_column_list: op}"
    )
    file = _pipeline(lake, topic, merge)
    assert _run(lake, spark_broker, file) is None
    assert _short(lake.rows()) == [(1, "a"), (2, "b"), (3, "a")]
    assert set(lake.rows()[0]) == {"id", "customer", "at"}
    _send(spark_broker, topic, CHANGES)
    assert _run(lake, spark_broker, file) is None
    assert _short(lake.rows()) == [(1, "a"), (2, "BB"), (4, "d")]
    commits = lake.folder / "ck" / topic / "sink" / "commits"
    for each in commits.glob("*1*"):
        each.unlink()
    written = lake.commits()
    assert _run(lake, spark_broker, file) is None
    assert _short(lake.rows()) == [(1, "a"), (2, "BB"), (4, "d")]
    assert lake.commits() == written


def test_new_columns_are_added_only_if_allowed(lake: Lake, spark_broker: EmbeddedBroker) -> None:
    topic = f"evolve-{lake.kind}"
    make(spark_broker, topic)
    _send(spark_broker, topic, ROWS)
    sql = "select id, customer from orders"
    assert _run(lake, spark_broker, _pipeline(lake, topic, sql=sql)) is None
    wider = "select id, customer, op from orders"
    error = _run(lake, spark_broker, _pipeline(lake, topic, sql=wider), "ck2")
    assert error == "the table has no column op: set schema_evolution: true to add it"
    allowed = _pipeline(lake, topic, ", schema_evolution: true", sql=wider)
    assert _run(lake, spark_broker, allowed, "ck3") is None
    assert sorted(str(each["op"]) for each in lake.rows()) == ["None"] * 3 + ["c"] * 3


def test_a_table_is_read_as_a_stream_and_as_a_whole(
    lake: Lake, spark_broker: EmbeddedBroker
) -> None:
    topic = f"read-{lake.kind}"
    make(spark_broker, topic)
    _send(spark_broker, topic, ROWS)
    assert _run(lake, spark_broker, _pipeline(lake, topic)) is None
    copy = lake.folder / "copy.yaml"
    copy.write_text(
        f"version: 1\nname: copy-{lake.kind}\nsources:\n  arrived: {{{lake.words()}}}\n"
        f"  whole: {{static: true, {lake.words()}}}\n"
        "steps:\n  joined: {sql: 'select s.id, w.customer from arrived s join whole w "
        "on s.id = w.id'}\n"
        f"sinks:\n  - {{from: joined, name: sink, format: json, path: {lake.folder}/out}}\n"
    )

    def out() -> list[int]:
        lines = [
            json.loads(line)
            for file in (lake.folder / "out").glob("*.json")
            for line in file.read_text().splitlines()
        ]
        return sorted(each["id"] for each in lines)

    assert _run(lake, spark_broker, copy, "ck-copy") is None
    assert out() == [1, 2, 3]
    _send(spark_broker, topic, [{"id": 4, "customer": "d", "at": None, "op": "c"}])
    assert _run(lake, spark_broker, _pipeline(lake, topic)) is None
    assert _run(lake, spark_broker, copy, "ck-copy") is None
    assert out() == [1, 2, 3, 4]


def test_small_files_are_compacted_and_a_stream_goes_on(
    lake: Lake, spark_broker: EmbeddedBroker
) -> None:
    topic = f"compact-{lake.kind}"
    make(spark_broker, topic)
    file = _pipeline(lake, topic)
    for each in ROWS:
        _send(spark_broker, topic, [each])
        assert _run(lake, spark_broker, file) is None
    document, spec, _ = read_file(file)
    assert document.file == file
    (sink,) = tables_of(spec, None)
    if lake.kind == "delta":
        before, after = _optimize(lake.spark, sink)
    else:
        before, after = IcebergTable.of(sink.table).compact()
    assert (before, after) == (3, 1)
    assert _short(lake.rows()) == [(1, "a"), (2, "b"), (3, "a")]
    _send(spark_broker, topic, [{"id": 4, "customer": "d", "at": None, "op": "c"}])
    assert _run(lake, spark_broker, file) is None
    assert _short(lake.rows())[3:] == [(4, "d")]
