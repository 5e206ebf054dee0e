"""Pipelines that read a directory into a topic, and a topic into a directory, with connectors."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.pipelines.run.query_state import SinkState
from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import make, read, run_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTO_A_TOPIC = """\
version: 1
name: in
checkpoint: ck
sources:
  shelf: {{connector: files, path: {folder}/in, format: csv}}
sinks:
  - {{from: shelf, topic: shelf-of-teas, key: "cast(id as string)"}}
"""
OUT_OF_IT = """\
version: 1
name: out
checkpoint: ck
sources:
  teas:
    subscribe: shelf-of-teas
    startingOffsets: earliest
    decode: {{value: {{json: "id bigint, name string"}}}}
steps:
  plain: {{sql: "select id, upper(name) as name from teas"}}
sinks:
  - {{from: plain, connector: files, path: {folder}/out, format: json}}
"""


def run(spark: "SparkSession", broker: EmbeddedBroker, folder: Path, text: str) -> None:
    file = folder / "pipeline.yaml"
    file.write_text(text.format(folder=folder), encoding="utf-8")
    lives = run_once(spark, broker, file, folder / "checkpoints")
    assert [(each.state, each.error) for each in lives] == [(SinkState.FINISHED, None)]


@pytest.mark.spark
def test_connectors_are_sources_and_sinks_and_a_second_run_reads_new_rows(
    spark: "SparkSession", spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    make(spark_broker, "shelf-of-teas", partitions=1)
    shelf = tmp_path / "in"
    shelf.mkdir()
    (shelf / "a.csv").write_text("id,name\n1,green\n2,black\n", encoding="utf-8")
    for _ in range(2):
        run(spark, spark_broker, tmp_path, INTO_A_TOPIC)
        run(spark, spark_broker, tmp_path, OUT_OF_IT)
    assert [each.key for each in read(spark_broker, "shelf-of-teas")] == [b"1", b"2"]
    (shelf / "b.csv").write_text("id,name\n3,white\n", encoding="utf-8")
    run(spark, spark_broker, tmp_path, INTO_A_TOPIC)
    run(spark, spark_broker, tmp_path, OUT_OF_IT)
    assert [each.key for each in read(spark_broker, "shelf-of-teas")] == [b"1", b"2", b"3"]
    lines = [
        json.loads(line)
        for file in (tmp_path / "out").glob("*.json")
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    found = sorted((each["id"], each["name"]) for each in lines)
    assert found == [(1, "GREEN"), (2, "BLACK"), (3, "WHITE")]
