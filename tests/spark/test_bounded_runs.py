"""Backfills beside a live pipeline: bounded runs, with their own checkpoint and identity."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.spark.pipeline_bounds import offsets_of
from headwater.client import Admin
from headwater.common.ids import TopicPartition
from headwater.pipelines.run.bounded_run import Bound, bounded
from headwater.pipelines.run.query_state import SinkState
from headwater.pipelines.spec.pipeline_spec import PipelineSpec
from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import make, read, run_once, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """\
version: 1
name: live
mode: batch
sources:
  rows: {subscribe: backfilled, startingOffsets: earliest, maxOffsetsPerTrigger: 15}
sinks:
  - {name: copy, from: rows, topic: backfilled-copy, value: "cast(value as string)",
     delivery: exactly-once}
"""
P0, P1 = TopicPartition("backfilled", 0), TopicPartition("backfilled", 1)


def backfill(spec: PipelineSpec) -> PipelineSpec:
    """Four rows of the first partition, and none of the second."""
    start = Bound(option="--from", offsets={P0: 1, P1: 2})
    end = Bound(option="--to", offsets={P0: 5, P1: 2})
    return bounded(spec, start, end, lookup=offsets_of)


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in sorted(folder.rglob("*"))
        if each.is_file()
    }


def test_a_backfill_writes_its_range_once_and_leaves_the_live_run_alone(
    spark: "SparkSession", spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    make(spark_broker, "backfilled", partitions=2)
    make(spark_broker, "backfilled-copy", partitions=1)
    # Keys decide the partition, so these are numbered per partition below.
    send(spark_broker, "backfilled", [(str(at % 7), f"row {at}") for at in range(40)])
    by_partition = {P0: list[bytes](), P1: list[bytes]()}
    for each in read(spark_broker, "backfilled"):
        by_partition[TopicPartition("backfilled", each.partition)].append(each.value or b"")
    assert len(by_partition[P0]) > 5
    file = tmp_path / "live.yaml"
    file.write_text(PIPELINE, encoding="utf-8")

    def run(change: Callable[[PipelineSpec], PipelineSpec] = lambda spec: spec) -> list[SinkState]:
        lives = run_once(spark, spark_broker, file, tmp_path / "ck", change)
        assert [each.error for each in lives] == [None]
        return [each.state for each in lives]

    # `mode: batch` ends by itself.
    assert run() == [SinkState.FINISHED]
    live = sorted(each.value or b"" for each in read(spark_broker, "backfilled-copy"))
    assert live == sorted(by_partition[P0] + by_partition[P1])
    before = content(tmp_path / "ck" / "live")
    assert run(backfill) == [SinkState.FINISHED]
    # Its rows again, and nothing else; not skipped as a repeated batch of the live run.
    both = sorted(each.value or b"" for each in read(spark_broker, "backfilled-copy"))
    assert both == sorted(live + by_partition[P0][1:5])
    # The same bounds again resume the same run, which has nothing left to do.
    assert run(backfill) == [SinkState.FINISHED]
    assert len(read(spark_broker, "backfilled-copy")) == len(both)
    assert content(tmp_path / "ck" / "live") == before
    with Admin(bootstrap_servers=spark_broker.bootstrap_servers) as admin:
        ids = {each.transactional_id.split("-", 1)[1][:36] for each in admin.list_transactions()}
    names = [each.name for each in (tmp_path / "ck").iterdir()]
    assert len(names) == 2
    query_ids = {
        (tmp_path / "ck" / name / "copy" / "metadata").read_text().split('"')[3] for name in names
    }
    assert len(query_ids) == 2
    assert query_ids <= ids
