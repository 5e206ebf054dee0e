"""`headwater pipeline`: problems found by `check`, and the commands for runs."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.client import Admin
from headwater.pipelines.run.run_files import NoSuchRun, RunFile, RunReport, report
from headwater.pipelines.run.run_records import PublishedRun, run_record
from headwater.pipelines.run.run_topic import RunTopic
from headwater.process.java import NoJava, find_java
from headwater.testing import EmbeddedBroker

PIPELINE = """\
version: 1
name: big-orders
sources:
  orders: {subscribe: orders, decode: {value: {json: "amount double"}}}
steps:
  big:
    sql: |
      select *
      from orders wher amount > 100
sinks:
  - {from: big, topic: big-orders, value: "amount +"}
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as opened:
        yield opened


def test_check_reports_every_problem_with_file_and_line(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Spark's grammar checks SQL, the broker checks topics."""
    try:
        find_java(os.environ)
    except NoJava as reason:
        pytest.skip(str(reason))
    file = tmp_path / "big.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    words = ["pipeline", "check", str(file), "-b", broker.bootstrap_servers]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"{file}:4: there is no topic orders",
        f"{file}:9: this is no SQL: syntax error near 'amount'",
        f"{file}:11: this is no SQL: syntax error at its end",
        f"{file}:11: there is no topic big-orders",
    ]
    told = CliRunner().invoke(app, [*words, "--json"]).stdout.splitlines()
    assert json.loads(told[0]) == {"file": str(file), "line": 4, "text": "there is no topic orders"}


def test_check_offline_needs_no_broker(tmp_path: Path) -> None:
    file = tmp_path / "copy.yaml"
    file.write_text(
        "name: copy\nbootstrap: nowhere:1\nsources: {a: {subscribe: a}}\n"
        "sinks:\n  - {from: a, topic: b}\n",
        encoding="utf-8",
    )
    result = CliRunner().invoke(app, ["pipeline", "check", str(file), "--offline"])
    assert (result.exit_code, result.stdout) == (0, "no problems found\n")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--to", "2026-01-01"], "--to and --output need --from"),
        (["--from", "soon"], "'soon' is not a time such as 2026-01-31T12:00"),
        (["--from", "2026-01-02", "--to", "2026-01-01"], "--from must be before --to"),
        (["--from", '{"a": 1}'], "--from must look like"),
        (["--from", "{}"], "--from names no partition"),
        (["--from", "earliest", "--to", "earliest"], "leaves nothing to read"),
    ],
)
def test_wrong_bounds_are_refused_before_the_file_is_read(words: list[str], reason: str) -> None:
    result = CliRunner().invoke(app, ["pipeline", "run", "nothing.yaml", *words])
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.replace("│", " ").split())


def told(name: str, pid: int, state: str) -> RunReport:
    sink = {
        "sink": "s",
        "state": "running",
        "batch": 3,
        "rows": 10,
        "rows_per_second": 5.0,
        "lag": 7,
        "batch_ms": 200,
        "restarts": 0,
        "error": None,
    }
    return RunReport(
        name=name, file="/p.yaml", pid=pid, started_ms=1, told_ms=2, state=state, sinks=[sink]
    )


def rows(*words: str) -> list[dict[str, object]]:
    result = CliRunner().invoke(app, ["pipeline", *words, "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_runs_are_listed_and_a_killed_one_is_reported_as_died(tmp_path: Path) -> None:
    with RunFile(tmp_path, "lost") as file:
        file.write(told("lost", 1, "running"))
    with RunFile(tmp_path, "orders") as file:
        file.write(told("orders", 42, "running"))
        found = rows("list", "--runs", str(tmp_path))
        assert [(each["pipeline"], each["state"], each["pid"]) for each in found] == [
            ("lost", "died", None),
            ("orders", "running", 42),
        ]
        (sink,) = rows("status", "orders", "--runs", str(tmp_path))
        assert (sink["sink"], sink["lag"], sink["run"]) == ("s", 7, "running")


def test_the_status_of_several_sinks_fits_80_columns(tmp_path: Path) -> None:
    sink = {
        "sink": "orders-by-minute",
        "state": "restarting",
        "batch": 1234,
        "rows": 123456,
        "rows_per_second": 12345.678901234567,
        "lag": 1234567,
        "batch_ms": 12345,
        "restarts": 12,
        "error": None,
    }
    words = ["pipeline", "status", "orders", "--runs", str(tmp_path)]
    with RunFile(tmp_path, "orders") as file:
        file.write(replace(told("orders", 42, "running"), sinks=[sink, sink]))
        lines = CliRunner().invoke(app, words).stdout.splitlines()
        assert lines[0] == "orders: running"
        assert lines[2].split() == [
            "orders-by-minute", "restarting", "1234", "123456", "12346", "1234567", "12345", "12",
        ]  # fmt: skip
        assert max(map(len, lines)) <= 80
        file.write(replace(told("orders", 42, "failed"), sinks=[{**sink, "error": "no such file"}]))
        assert "no such file" in CliRunner().invoke(app, words).stdout


def test_a_pipeline_that_is_not_running_cannot_be_stopped(tmp_path: Path) -> None:
    with RunFile(tmp_path, "orders") as file:
        file.write(told("orders", os.getpid(), "finished"))
    result = CliRunner().invoke(app, ["pipeline", "stop", "orders", "--runs", str(tmp_path)])
    assert (result.exit_code, result.stderr) == (
        1,
        "headwater: pipeline orders is not running\n",
    )
    result = CliRunner().invoke(app, ["pipeline", "stop", "other", "--runs", str(tmp_path)])
    assert result.stderr == "headwater: no pipeline other has been run here\n"


HOLDER = """
import os, signal, sys
from pathlib import Path
from headwater.pipelines.run.run_files import RunFile, RunReport
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with RunFile(Path(sys.argv[1]), "orders") as file:
    told = {"name": "orders", "file": "", "pid": os.getpid(), "state": "running"}
    file.tell(RunReport(**told, started_ms=0, told_ms=0))
    print("there", flush=True)
    signal.pause()
"""


def test_stop_waits_for_the_end_of_the_run(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "there\n"
        result = CliRunner().invoke(app, ["pipeline", "stop", "orders", "--runs", str(tmp_path)])
        assert result.exit_code == 0, result.output
        assert run.wait(60) == 0


def test_published_runs_are_listed_and_stopped_from_any_machine(broker: EmbeddedBroker) -> None:
    brokers = ("-b", broker.bootstrap_servers)
    run = PublishedRun(
        name="elsewhere",
        host="other.example",
        pid=17,
        file="/o.yaml",
        started_ms=1,
        told_ms=time.time_ns() // 1_000_000,
        state="running",
    )
    with RunTopic({"bootstrap.servers": broker.bootstrap_servers}) as topic:
        topic.create()
        topic._send(run_record(run))
        listed = CliRunner().invoke(app, ["pipeline", "list", *brokers, "--json"])
        (row,) = [json.loads(line) for line in listed.stdout.splitlines()]
        assert (row["pipeline"], row["host"], row["state"]) == (
            "elsewhere",
            "other.example",
            "running",
        )
        shown = CliRunner().invoke(app, ["pipeline", "status", "elsewhere", *brokers])
        assert shown.stdout.startswith("elsewhere: running")
        # The run does not answer, and so does not end.
        words = ["pipeline", "stop", "elsewhere", *brokers, "--timeout", "0"]
        stopped = CliRunner().invoke(app, words)
        assert (stopped.exit_code, stopped.stderr) == (
            1,
            "headwater: elsewhere still runs after 0 s\n",
        )
        assert topic.refresh().is_stop_requested("elsewhere", 1)
        topic._send(run_record(replace(run, state="stopped")))
        stopped = CliRunner().invoke(app, words)
        assert stopped.stderr == "headwater: pipeline elsewhere is not running\n"
    missing = CliRunner().invoke(app, ["pipeline", "status", "nothing", *brokers])
    assert missing.stderr == "headwater: no run of the pipeline nothing is published there\n"


def is_starting(folder: Path) -> bool:
    try:
        return report(folder, "copy").state == "starting"
    except NoSuchRun:
        return False


def test_a_run_stopped_while_spark_starts_is_reported_as_stopped(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Ctrl-C is the harder case: PySpark would handle it meanwhile."""
    try:
        find_java(os.environ)
    except NoJava as reason:
        pytest.skip(str(reason))
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("from")
        admin.create_topic("to")
    file = tmp_path / "copy.yaml"
    file.write_text(
        f"name: copy\nbootstrap: {broker.bootstrap_servers}\n"
        "sources: {a: {subscribe: from}}\nsinks:\n  - {from: a, topic: to}\n",
        encoding="utf-8",
    )
    words = ["pipeline", "run", str(file), "--runs", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-m", "headwater", *words], stderr=subprocess.PIPE, text=True
    ) as run:
        until_s = time.monotonic() + 60
        while not is_starting(tmp_path):
            assert run.poll() is None
            assert time.monotonic() < until_s
            threading.Event().wait(0.05)
        run.send_signal(signal.SIGINT)
        _, told = run.communicate(timeout=120)
    assert run.returncode == 0, told
    assert report(tmp_path, "copy").state == "stopped"
