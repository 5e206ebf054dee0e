"""Totals, lag and metrics of a running pipeline."""

import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.client import Producer
from headwater.client.consumer.lag_reader import LagReader
from headwater.common.ids import TopicPartition
from headwater.network.endpoint import parse_address
from headwater.pipelines.check.checked_pipeline import read_file
from headwater.pipelines.metrics.lag_monitor import Lag, clusters_of, lag_of
from headwater.pipelines.metrics.pipeline_metrics import MetricsServer, PipelineMetrics
from headwater.pipelines.metrics.progress_listener import ProgressListener, group_commits
from headwater.pipelines.metrics.progress_totals import SinkTotals
from headwater.pipelines.run.batch_progress import BatchProgress
from headwater.pipelines.run.query_state import SinkQueryState
from headwater.pipelines.spec.pipeline_spec import PipelineSpec, Restarts
from headwater.testing import EmbeddedBroker
from tests.unit.pipelines.pipeline_files import GOOD, written
from tests.unit.spark.fake_brokers import FakeBrokers

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BATCH = BatchProgress(
    batch_id=4,
    rows=100,
    rows_per_second=51.3,
    batch_ms=1500,
    lag=12,
    dropped_rows=2,
    watermark="2026-01-01T00:00:10.500Z",
    phases_ms={"addBatch": 1250},
    state_rows=7,
    state_bytes=2048,
    observed={"input.orders": {"bytes": 640}, "dead_letters": {"count": 3}},
)


def test_totals_add_up_batches() -> None:
    assert SinkTotals().plus(BATCH).plus(BATCH) == SinkTotals(
        batches=2, rows=200, dropped_rows=4, dead_letters=6, seconds=3.0, bytes={"orders": 1280}
    )


def test_the_listener_adds_up_by_sink() -> None:
    listener = ProgressListener("shop")
    listener.add("shop-big", '{"batchId": 0, "numInputRows": 5}')
    listener.add("shop-big", '{"batchId": 1, "numInputRows": 6}')
    assert listener.totals == {"big": SinkTotals(batches=2, rows=11)}


class Brokers(FakeBrokers):
    """Ten records in each partition, a second apart."""

    def first_timestamp_ms(self, partition: TopicPartition, offset: int) -> int | None:
        stamps = self.logs[partition].timestamps[offset:]
        return stamps[0] if stamps else None


def test_lag_in_time_is_the_age_of_the_oldest_unread_record() -> None:
    brokers = Brokers(t=[10, 10])
    sinks = {"a": {T0: 10, T1: 7}, "b": {T0: 2, T1: 10}, "done": {T0: 10, T1: 10}}
    assert lag_of(sinks, brokers, now_ms=20_000) == {
        "a": Lag(records=3, time_ms=13_000),
        "b": Lag(records=8, time_ms=18_000),
        "done": Lag(records=0, time_ms=0),
    }


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as opened:
        yield opened


def test_lag_is_read_from_brokers(broker: EmbeddedBroker) -> None:
    client = {"bootstrap.servers": broker.bootstrap_servers}
    with Producer(client) as producer:
        for stamp_ms in (1_000, 2_000, 9_000):
            producer.send("lagging", b"x", partition=0, timestamp=stamp_ms).result(60)
    partition = TopicPartition("lagging", 0)
    with LagReader(client) as reader:
        found = lag_of({"s": {partition: 1}}, reader, now_ms=10_000)
    assert found == {"s": Lag(records=2, time_ms=8_000)}


def spec_of(folder: Path, text: str) -> PipelineSpec:
    _, spec, problems = read_file(written(folder, text))
    assert problems == []
    return spec


TWO_CLUSTERS = """\
name: two
bootstrap: a:1
sources:
  x: {subscribe: x}
  y: {subscribe: y, kafka.bootstrap.servers: "b:1"}
  z: {subscribePattern: "z.*"}
sinks:
  - {from: x, topic: out}
"""


def test_offsets_are_committed_in_the_cluster_of_their_topic(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, TWO_CLUSTERS)
    assert [client["bootstrap.servers"] for client, _ in clusters_of(spec)] == ["a:1", "b:1"]
    accepted = [
        [topic for topic in ("x", "y", "zz", "other") if commits.accepts(topic)]
        for commits in group_commits(spec)
    ]
    assert accepted == [["x", "zz"], ["y"]]


def test_offsets_are_not_committed_if_the_file_says_so(tmp_path: Path) -> None:
    assert len(group_commits(spec_of(tmp_path, GOOD))) == 1
    assert group_commits(spec_of(tmp_path, GOOD + "commit_offsets: false\n")) == []
    # A backfill does not stand anywhere.
    assert group_commits(replace(spec_of(tmp_path, GOOD), is_bounded=True)) == []


def test_metrics_are_served_in_the_format_of_prometheus() -> None:
    metrics = PipelineMetrics(
        "shop",
        totals=lambda: {"big": SinkTotals().plus(BATCH)},
        lags=lambda: {"big": Lag(records=12, time_ms=2_500)},
    )
    life = SinkQueryState(name="big").started().progressed(BATCH)
    failed = life.failed("no broker", Restarts(), 0).started()
    metrics.lives = [failed]
    clock = lambda: time.monotonic_ns() // 1_000_000  # noqa: E731
    endpoint = parse_address("127.0.0.1:0", name="METRICS")
    with (
        MetricsServer(endpoint, metrics.families, steady_ms=clock) as server,
        urllib.request.urlopen(server.url, timeout=60) as response,
    ):
        text = response.read().decode()
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    sink = 'pipeline="shop",sink="big"'
    assert samples == [
        f"headwater_pipeline_running{{{sink}}} 1",
        f"headwater_pipeline_restarts_total{{{sink}}} 1",
        f"headwater_pipeline_rows_total{{{sink}}} 100",
        f'headwater_pipeline_bytes_total{{{sink},source="orders"}} 640',
        f"headwater_pipeline_batches_total{{{sink}}} 1",
        f"headwater_pipeline_batch_seconds_total{{{sink}}} 1.5",
        f"headwater_pipeline_dropped_rows_total{{{sink}}} 2",
        f"headwater_pipeline_dead_letters_total{{{sink}}} 3",
        f"headwater_pipeline_lag_records{{{sink}}} 12",
        f"headwater_pipeline_lag_seconds{{{sink}}} 2.5",
        f"headwater_pipeline_last_batch_id{{{sink}}} 4",
        f'headwater_pipeline_last_batch_phase_seconds{{{sink},phase="addBatch"}} 1.25',
        f"headwater_pipeline_watermark_timestamp_seconds{{{sink}}} 1767225610.5",
        f"headwater_pipeline_state_rows{{{sink}}} 7",
        f"headwater_pipeline_state_bytes{{{sink}}} 2048",
    ]
    assert "# TYPE headwater_pipeline_restarts_total counter" in text
    assert "# TYPE headwater_pipeline_lag_records gauge" in text
