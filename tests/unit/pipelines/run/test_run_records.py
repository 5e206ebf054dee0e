"""The state of runs in a topic: the record format, and the topic on a broker."""

import subprocess
import sys
from dataclasses import replace

from headwater.pipelines.run.run_files import RunReport
from headwater.pipelines.run.run_records import (
    DEAD_AFTER_MS,
    PublishedRun,
    PublishedRuns,
    run_record,
    stop_record,
)
from headwater.pipelines.run.run_topic import RunTopic
from headwater.testing import EmbeddedBroker

RUN = PublishedRun(
    name="orders",
    host="a.example",
    pid=17,
    file="/orders.yaml",
    started_ms=1_000,
    told_ms=2_000,
    state="running",
    sinks=({"sink": "a", "lag": 3},),
)


def test_a_report_is_read_as_it_was_written() -> None:
    runs = PublishedRuns()
    runs.replay(*run_record(RUN))
    assert runs.runs == {"orders": RUN}


def test_keys_of_one_run_are_equal_bytes() -> None:
    """Compaction keeps the last report of each run."""
    assert run_record(RUN)[0] == run_record(replace(RUN, state="stopped", told_ms=9_000))[0]
    assert run_record(RUN)[0] != stop_record(RUN, 0)[0]


def test_a_stop_request_is_for_one_run_only() -> None:
    runs = PublishedRuns()
    runs.replay(*stop_record(RUN, 5_000))
    assert runs.is_stop_requested("orders", RUN.started_ms)
    assert not runs.is_stop_requested("orders", RUN.started_ms + 1)
    assert not runs.is_stop_requested("other", RUN.started_ms)


def test_a_run_without_reports_counts_as_dead() -> None:
    assert RUN.is_alive(RUN.told_ms + DEAD_AFTER_MS)
    assert not RUN.is_alive(RUN.told_ms + DEAD_AFTER_MS + 1)
    assert not replace(RUN, state="finished").is_alive(RUN.told_ms)


def test_tombstones_and_foreign_records_are_no_runs() -> None:
    runs = PublishedRuns()
    key, value = run_record(RUN)
    runs.replay(key, value)
    runs.replay(None, b"{}")
    runs.replay(b"not json", b"{}")
    runs.replay(b'{"kind":"later","name":"orders"}', b"{}")
    runs.replay(key, b'{"version": 99}')
    assert runs.runs == {"orders": RUN}
    runs.replay(key, None)
    assert runs.runs == {}


def test_the_record_format_needs_no_pyspark() -> None:
    program = """
import sys
sys.modules["pyspark"] = None
import headwater.pipelines.run.run_records
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_runs_are_seen_and_stopped_through_a_broker() -> None:
    report = RunReport(
        name="orders", file="/o.yaml", pid=17, started_ms=1, told_ms=2, state="running", sinks=[]
    )
    with EmbeddedBroker() as broker:
        client = {"bootstrap.servers": broker.bootstrap_servers}
        with RunTopic(client) as here, RunTopic(client) as elsewhere:
            assert elsewhere.refresh().runs == {}
            here.create()
            here.create()
            here.publish(report)
            seen = elsewhere.refresh().runs["orders"]
            assert (seen.state, seen.pid, seen.started_ms) == ("running", 17, 1)
            elsewhere.request_stop(seen, now_ms=3)
            assert here.refresh().is_stop_requested("orders", 1)
            here.publish(replace(report, state="stopped", told_ms=4))
            assert elsewhere.refresh().runs["orders"].state == "stopped"
