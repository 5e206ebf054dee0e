"""Formats and options of Spark that are refused before Spark is started, with their lines."""

from pathlib import Path

import pytest

from headwater.pipelines.check.format_check import jars_of_this_machine
from tests.unit.pipelines.pipeline_files import problems_of, written

HEAD = """\
version: 1
name: p
bootstrap: 127.0.0.1:9092
sources:
"""
TOPIC = "  orders: {subscribe: orders}\n"
SINK = "sinks:\n  - from: orders\n    topic: copied\n"


def _source(*lines: str) -> str:
    return HEAD + "  orders:\n" + "".join(f"    {line}\n" for line in lines) + SINK


def _sink(*lines: str) -> str:
    return HEAD + TOPIC + "sinks:\n  - from: orders\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (
            _source("format: json", "path: in", "schema: id bigint", "multiline: true"),
            None,
            None,
        ),
        (
            _source("format: json", "path: in", "schema: id bigint", "multiLines: true"),
            9,
            "orders: json has no option multiLines; did you mean multiLine?",
        ),
        (_source("format: csv", "schema: id bigint"), 5, "orders: csv needs path"),
        (_source("format: rate", "rowsPerSecond: 5"), None, None),
        (
            _source("format: rate", "rowPerSecond: 5"),
            7,
            "orders: rate has no option rowPerSecond; did you mean rowsPerSecond?",
        ),
        (_source("format: console"), 6, "orders: console cannot be read from"),
        (
            _source("format: parket", "path: in"),
            6,
            "orders: the format parket is not installed; did you mean parquet?",
        ),
        (
            _source("format: kafka", "subscribe: orders"),
            6,
            "orders: the format kafka is not installed: leave out format to read and write topics, "
            "or add org.apache.spark:spark-sql-kafka-0-10_2.13 to spark.jars.packages",
        ),
        (_sink("format: parquet", "path: out", "compression: zstd"), None, None),
        (_sink("format: parquet", "path: out", "parquet.block.size: 1024"), None, None),
        (
            _sink("format: parquet", "path: out", "compresion: zstd"),
            10,
            "orders-to-out: parquet has no option compresion; did you mean compression?",
        ),
        (_sink("format: parquet"), 7, "orders-to-parquet: parquet needs path"),
        (
            _sink("format: rate"),
            8,
            "orders-to-rate: rate cannot be written to by a stream",
        ),
        (
            _sink("format: avro", "path: out"),
            8,
            "orders-to-out: the format avro is not installed: add "
            "org.apache.spark:spark-avro_2.13 of your Spark version to spark.jars.packages",
        ),
        (_sink("format: com.example.Format", "any: option"), None, None),
        (
            "session: {conf: {spark.jars: /opt/avro.jar}}\n" + _sink("format: avro", "path: out"),
            None,
            None,
        ),
        (_sink("format: parquet", "path: out", "mode: update"), 10, "can only be appended to"),
    ],
)
def test_problem_of_a_format_has_its_line(
    tmp_path: Path, text: str, line: int | None, reason: str | None
) -> None:
    found = problems_of(written(tmp_path, text))
    if reason is None or line is None:
        assert found == []
    else:
        assert [at for at, _ in found] == [line]
        assert reason in found[0][1]


def test_jars_of_the_machine_may_bring_any_format(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# jars\nspark.master local\nspark.jars.packages   org.example:format:1\n"
    )
    assert jars_of_this_machine({"SPARK_CONF_DIR": str(tmp_path)}) == {
        "spark.jars.packages": "org.example:format:1"
    }
    assert jars_of_this_machine({"SPARK_HOME": str(tmp_path)}) == {}


ICEBERG = ("format: iceberg", "table: sales.orders", "catalog: {type: sql, uri: 'sqlite:///c.db'}")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (_sink("format: parquet", "path: out", "partition_by: [day, country]"), None, None),
        (_sink("format: parquet", "path: out", "files: 2"), None, None),
        (_sink("format: parquet", "path: out", "files: 0"), 10, "files must be at least 1"),
        (_sink("format: csv", "path: out", "partition_by: day(at)"), 10, "by columns only"),
        (
            _sink("format: csv", "path: out", "partition_by: 'a b'"),
            10,
            "'a b' is not a partition",
        ),
        (_sink("format: console", "partition_by: a"), 9, "console has no partition_by: that is"),
        (_sink("format: parquet", "path: out", "merge: {keys: id}"), 10, "parquet has no merge"),
        (_sink("format: parquet", "table: t"), 9, "Spark would forget the table t at its end"),
        (_sink("format: parquet", "table: t", "path: out"), 7, "parquet needs path, or table"),
        (_sink(*ICEBERG), None, None),
        (_sink(*ICEBERG, "partition_by: [day(at), 'bucket(16, id)', name]"), None, None),
        (_sink(*ICEBERG, "path: out"), 11, "iceberg has no option path"),
        (_sink(*ICEBERG, "mode: complete"), 11, "mode complete does not fit here: use append"),
        (_sink(*ICEBERG, "mode: update"), 11, "updates replace rows by keys: set merge"),
        (_sink(*ICEBERG, "mode: update", "merge: {keys: [id]}"), None, None),
        (_sink(*ICEBERG, "merge: {key: [id]}"), 11, "merge needs keys"),
        (_sink("format: iceberg", "table: a.b"), 7, "iceberg needs a catalog"),
        (_sink("format: iceberg", "catalog: lake"), 7, "iceberg needs table: NAMESPACE.TABLE"),
        (_source(*ICEBERG, "static: true"), None, None),
        (
            _source(*ICEBERG, "streaming-skip-delete-snapshot: true"),
            9,
            "did you mean streaming-skip",
        ),
        (
            _source("format: jdbc", "url: jdbc:x"),
            6,
            "jdbc cannot be read as a stream: set",
        ),
        (_source("format: jdbc", "url: jdbc:x", "dbtable: t", "static: true"), None, None),
        (
            _source("format: rate", "static: true"),
            6,
            "rate can only be read as a stream",
        ),
        (_source("format: json", "path: x", "table: t"), 8, "json has no tables: set path"),
        (_source("format: json", "path: x", "table: true"), 8, "only a topic can be read as a"),
    ],
)
def test_problems_of_tables_and_files_have_their_lines(
    tmp_path: Path, text: str, line: int | None, reason: str | None
) -> None:
    found = problems_of(written(tmp_path, text))
    if reason is None or line is None:
        assert found == []
    else:
        assert any(at == line and reason in told for at, told in found), found


def test_delta_is_refused_on_a_spark_that_it_does_not_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: "4.3.0")
    file = written(tmp_path, _sink("format: delta", "path: out"))
    assert problems_of(file) == [
        (
            8,
            "orders-to-out: delta needs PySpark 4.2, and 4.3.0 is installed: "
            "pip install 'pyspark==4.2.*'",
        )
    ]
    monkeypatch.setattr("importlib.metadata.version", lambda _: "4.2.1")
    assert problems_of(file) == []
    twice = written(tmp_path, _sink("format: delta", "path: out", "mode: update"))
    assert problems_of(twice) == [(10, "orders-to-out: updates replace rows by keys: set merge")]
