"""`headwater pipeline reset`, and what Spark does with the checkpoint afterwards."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.pipelines.run.query_state import SinkState
from headwater.pipelines.run.run_files import RunFile
from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import make, read, run_once, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """\
version: 1
name: reset
bootstrap: {bootstrap}
checkpoint: ./ck
mode: batch
sources:
  rows:
    subscribe: reset
    startingOffsets: earliest
    decode: {{value: {{json: "n int"}}}}
steps:
  sums: {{sql: "select 'all' as k, sum(n) as total from rows group by 1"}}
sinks:
  - {{name: copy, from: rows, topic: reset-copy, delivery: exactly-once}}
  - {{name: files, from: rows, format: parquet, path: ./lake}}
  - {{name: sums, from: sums, topic: reset-sums, mode: update, key: k, delivery: exactly-once}}
"""


def numbers(broker: EmbeddedBroker, topic: str, column: str) -> list[int]:
    return sorted(json.loads(each.value or b"")[column] for each in read(broker, topic))


@pytest.mark.spark
def test_a_reset_pipeline_reads_again_from_the_new_offsets(
    spark: "SparkSession", spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    make(spark_broker, "reset", "reset-copy", "reset-sums", partitions=1)
    send(spark_broker, "reset", [(None, json.dumps({"n": n})) for n in range(1, 6)])
    file = tmp_path / "reset.yaml"
    text = PIPELINE.format(bootstrap=spark_broker.bootstrap_servers)
    file.write_text(text, encoding="utf-8")
    runs = tmp_path / "runs"

    def run() -> None:
        lives = run_once(spark, spark_broker, file, tmp_path / "ck", lambda spec: spec)
        assert [(each.state, each.error) for each in lives] == [(SinkState.FINISHED, None)] * 3

    def reset(*words: str) -> tuple[int, str, str]:
        whole = ["pipeline", "reset", str(file), "--runs", str(runs), *words]
        result = CliRunner().invoke(app, whole)
        return result.exit_code, result.stdout, result.stderr

    run()
    assert numbers(spark_broker, "reset-copy", "n") == [1, 2, 3, 4, 5]
    with RunFile(runs, "reset"):
        code, _, told = reset("--to-earliest", "--execute")
        assert (code, told) == (1, "headwater: the pipeline reset is running: stop it first\n")
    code, out, told = reset("--to-offset", "3", "--sink", "copy", "--json")
    assert (code, told.split(":")[0]) == (0, "Dry run")
    assert json.loads(out) == {
        "sink": "copy",
        "topic": "reset",
        "partition": 0,
        "offset": 5,
        "new_offset": 3,
        "effect": "same checkpoint",
    }
    code, out, told = reset("--to-current", "--sink", "copy", "--json")
    assert (code, json.loads(out)["new_offset"]) == (0, 5)
    run()
    assert numbers(spark_broker, "reset-copy", "n") == [1, 2, 3, 4, 5]
    code, out, told = reset("--to-offset", "3", "--execute")
    assert code == 0, told
    assert told.startswith("headwater: sums: the former checkpoint is reset/sums@")
    run()
    # The rows of two offsets again, not skipped as repeated batches; new sums of them alone.
    assert numbers(spark_broker, "reset-copy", "n") == [1, 2, 3, 4, 4, 5, 5]
    assert numbers(spark_broker, "reset-sums", "total") == [9, 15]
    files = spark.read.parquet(str(tmp_path / "lake")).select("n").collect()
    assert sorted(each.n for each in files) == [1, 2, 3, 4, 4, 5, 5]
    send(spark_broker, "reset", [(None, json.dumps({"n": 6}))])
    run()
    assert numbers(spark_broker, "reset-copy", "n") == [1, 2, 3, 4, 4, 5, 5, 6]
    assert numbers(spark_broker, "reset-sums", "total") == [9, 15, 15]
