"""Progress of a pipeline on real Spark: metrics, group offsets, dead letters."""

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.client import Admin
from headwater.common.ids import TopicPartition
from headwater.connect.pipeline_connectors import InstalledConnectors
from headwater.network.endpoint import parse_address
from headwater.pipelines.metrics.run_progress import RunProgress
from headwater.pipelines.run.pipeline_run import supervisor_of
from headwater.pipelines.run.query_state import SinkState
from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import make, send, spec_of
from tests.spark.queries import TIMEOUT_S, TRIES, is_too_slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """\
version: 1
name: measured
mode: batch
sources:
  rows:
    subscribe: measured
    startingOffsets: earliest
    decode: {value: {json: "n int"}}
sinks:
  - {name: copy, from: rows, topic: measured-copy, delivery: exactly-once}
on_error: {dead_letter: measured.dlq}
"""
GOOD = ['{"n": 1}', '{"n": 22}', '{"n": 333}']


def test_bytes_dead_letters_and_group_offsets_of_a_pipeline(
    spark: "SparkSession", spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    make(spark_broker, "measured", "measured-copy", partitions=1)
    send(spark_broker, "measured", [("k", each) for each in [*GOOD, "{nope"]])
    file = tmp_path / "measured.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    spec = spec_of(spark_broker, file, tmp_path / "ck")
    spec = replace(spec, restarts=replace(spec.restarts, max_count=0))
    progress = RunProgress(spec, parse_address("127.0.0.1:0", name="METRICS"))
    for _ in range(TRIES):
        supervisor = supervisor_of(
            spec,
            spark,
            connectors=InstalledConnectors(),
            steady_ms=lambda: time.monotonic_ns() // 1_000_000,
            on_change=progress.update,
            listeners=progress.listeners,
            ended=progress.catch_up,
            is_measured=True,
        )
        lives = supervisor.run()
        if not any(is_too_slow(each.error or "") for each in lives):
            break
    assert [(each.state, each.error) for each in lives] == [(SinkState.FINISHED, None)] * 2
    totals = progress.totals
    until_s = time.monotonic() + TIMEOUT_S
    while len(totals) < 2:
        # Spark tells its listeners some time after the batch.
        assert time.monotonic() < until_s
        threading.Event().wait(0.1)
        totals = progress.totals
    size = sum(len(each) + 1 for each in [*GOOD, "{nope"])
    assert (totals["copy"].rows, totals["copy"].bytes) == (4, {"rows": size})
    assert totals["dead-letters-of-rows"].dead_letters == 1
    with Admin(bootstrap_servers=spark_broker.bootstrap_servers) as admin:
        committed = admin.list_group_offsets("spark-measured-copy")
    assert {each: found.offset for each, found in committed.items()} == {
        TopicPartition("measured", 0): 4
    }
