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
from headwater.cli.spark.pipeline_submit import (
    cluster_command,
    detached_command,
    refuse_unpublished,
)
from headwater.client import Admin
from headwater.pipelines.check.checked_pipeline import read_file
from headwater.pipelines.checkpoint.checkpoint_storage import LocalStorage
from headwater.pipelines.checkpoint.file_changes import write_description
from headwater.pipelines.run.run_files import NoSuchRun, RunFile, RunReport, report
from headwater.pipelines.run.run_records import PublishedRun, run_record
from headwater.pipelines.run.run_topic import RunTopic
from headwater.pipelines.spec.pipeline_spec import PipelineSpec
from headwater.process.java import NoJava, find_java
from headwater.spark.exceptions import InvalidOption
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
        f"{file}:9: invalid SQL: syntax error near 'amount'",
        f"{file}:11: invalid SQL: syntax error at its end",
        f"{file}:11: there is no topic big-orders",
    ]
    lines = CliRunner().invoke(app, [*words, "--json"]).stdout.splitlines()
    assert json.loads(lines[0]) == {
        "file": str(file),
        "line": 4,
        "text": "there is no topic orders",
    }


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


def run_report(name: str, pid: int, state: str) -> RunReport:
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
        file.write(run_report("lost", 1, "running"))
    with RunFile(tmp_path, "orders") as file:
        file.write(run_report("orders", 42, "running"))
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
        file.write(replace(run_report("orders", 42, "running"), sinks=[sink, sink]))
        lines = CliRunner().invoke(app, words).stdout.splitlines()
        assert lines[0] == "orders: running"
        assert lines[2].split() == [
            "orders-by-minute", "restarting", "1234", "123456", "12346", "1234567", "12345", "12",
        ]  # fmt: skip
        assert max(map(len, lines)) <= 80
        file.write(
            replace(run_report("orders", 42, "failed"), sinks=[{**sink, "error": "no such file"}])
        )
        assert "no such file" in CliRunner().invoke(app, words).stdout


@pytest.mark.parametrize(
    ("limits", "change", "code", "text"),
    [
        ((), {"state": "failed"}, 0, ""),
        (("--max-lag", "7"), {}, 0, ""),
        (("--max-lag", "6"), {}, 3, "headwater: s is 7 records behind\n"),
        (("--max-lag-seconds", "2"), {}, 0, ""),
        (("--max-lag-seconds", "2"), {"lag_ms": 2_500}, 3, "headwater: s is 2.5 s behind\n"),
        (("--max-lag", "7"), {"state": "waiting"}, 1, "headwater: s is waiting\n"),
    ],
)
def test_status_alerts_by_its_exit_code(
    tmp_path: Path, limits: tuple[str, ...], change: dict[str, object], code: int, text: str
) -> None:
    words = ["pipeline", "status", "orders", "--runs", str(tmp_path), *limits]
    with RunFile(tmp_path, "orders") as file:
        written = run_report("orders", 42, "running")
        file.write(replace(written, sinks=[{**written.sinks[0], **change}]))
        result = CliRunner().invoke(app, words)
        assert (result.exit_code, result.stderr) == (code, text)
    # It has died since: there is no report of that.
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stderr) == (
        (1, "headwater: orders is not running: died\n") if limits else (0, "")
    )


def test_a_pipeline_that_is_not_running_cannot_be_stopped(tmp_path: Path) -> None:
    with RunFile(tmp_path, "orders") as file:
        file.write(run_report("orders", os.getpid(), "finished"))
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
    values = {"name": "orders", "file": "", "pid": os.getpid(), "state": "running"}
    file.write(RunReport(**values, started_ms=0, told_ms=0))
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


@pytest.mark.spark
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
        _, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors
    assert report(tmp_path, "copy").state == "stopped"


COPY = """\
name: copy
bootstrap: {bootstrap}
checkpoint: ./ck
sources: {{a: {{subscribe: {topic}}}}}
sinks:
  - {{name: s, from: a, topic: to-{topic}}}
"""


def test_upgrade_tells_changes_and_run_refuses_with_the_same_words(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    try:
        find_java(os.environ)
    except NoJava as reason:
        pytest.skip(str(reason))
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("upgraded")
        admin.create_topic("to-upgraded")
    file = tmp_path / "copy.yaml"
    text = COPY.format(bootstrap=broker.bootstrap_servers, topic="former")
    file.write_text(text, encoding="utf-8")
    asked = ["pipeline", "upgrade", str(file)]
    result = CliRunner().invoke(app, asked)
    assert (result.exit_code, result.stdout) == (0, "no checkpoint yet\n")
    _, spec, _ = read_file(file)
    storage = LocalStorage(tmp_path / "ck")
    write_description(storage, spec)
    storage.write("copy/s/offsets/0", "v1")
    assert CliRunner().invoke(app, asked).stdout == "no changes\n"
    text = COPY.format(bootstrap=broker.bootstrap_servers, topic="upgraded")
    file.write_text(text, encoding="utf-8")
    line = (
        f"{file}:4: s: a does not read former any more, which its offsets are about: "
        "needs a new checkpoint"
    )
    result = CliRunner().invoke(app, asked)
    assert (result.exit_code, result.stdout.splitlines()) == (
        1,
        [
            f"{file}:6: s: it writes to to-upgraded instead of to-former: keeps the checkpoint",
            f"{file}:4: s: a reads upgraded too, from its earliest offset: keeps the checkpoint",
            line,
        ],
    )
    changes = [
        json.loads(each)
        for each in CliRunner().invoke(app, [*asked, "--json"]).stdout.split("\n")
        if each
    ]
    assert [each["effect"] for each in changes] == ["keeps", "keeps", "breaks"]
    result = CliRunner().invoke(app, ["pipeline", "run", str(file), "--runs", str(tmp_path)])
    assert (result.exit_code, result.stderr) == (1, f"{line}\n")


SUBMITTED = """\
name: copy
{bootstrap}
checkpoint: hdfs:///ck
settings: client.properties
session: {{master: "{master}", conf: {{{conf}}}}}
sources: {{a: {{subscribe: from}}}}
steps: {{b: {{python: "jobs.py:f", inputs: [a]}}}}
sinks:
  - {{from: b, topic: to}}
"""


def submitted(folder: Path, master: str, conf: str = "", brokers: str = "b:1") -> PipelineSpec:
    (folder / "client.properties").write_text("client.id=me\n")
    (folder / "jobs.py").write_text("def f(a): return a\n")
    file = folder / "copy.yaml"
    bootstrap = f"bootstrap: {brokers}" if brokers else ""
    file.write_text(SUBMITTED.format(master=master, conf=conf, bootstrap=bootstrap))
    _, spec, problems = read_file(file)
    assert problems == []
    return spec


def test_a_driver_for_yarn_is_submitted_in_cluster_mode_with_its_files(tmp_path: Path) -> None:
    spec = submitted(tmp_path, "yarn", "spark.executor.memory: 2g")
    submit_path, *words = cluster_command(spec)
    assert submit_path.endswith("/bin/spark-submit")
    driver = words.index(next(each for each in words if each.endswith("submitted_driver.py")))
    assert words[:driver] == [
        *("--master", "yarn", "--deploy-mode", "cluster", "--name", "headwater-copy"),
        "--files",
        ",".join(str(tmp_path / each) for each in ("copy.yaml", "client.properties", "jobs.py")),
        *("--conf", "spark.executor.memory=2g"),
        *("--conf", "spark.yarn.submit.waitAppCompletion=false"),
        *("--conf", "spark.kubernetes.submission.waitAppCompletion=false"),
    ]
    # Files are in the driver's working folder.
    assert words[driver + 1 :] == [
        *("pipeline", "run", "copy.yaml", "--publish", "--master", "yarn"),
        *("--bootstrap", "b:1", "--command-config", "client.properties"),
    ]


def test_a_driver_for_kubernetes_needs_an_image(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"needs spark\.kubernetes\.container\.image"):
        cluster_command(submitted(tmp_path, "k8s://https://k:6443"))


def test_a_submitted_run_needs_brokers_for_its_state(tmp_path: Path) -> None:
    refuse_unpublished(submitted(tmp_path, "yarn"))
    with pytest.raises(InvalidOption, match="set bootstrap"):
        refuse_unpublished(submitted(tmp_path, "yarn", brokers=""))


def test_a_driver_on_this_machine_is_the_published_run_of_the_same_file(tmp_path: Path) -> None:
    words = detached_command(submitted(tmp_path, "spark://m:7077"), Path("/runs"))
    assert words == [
        *(sys.executable, "-m", "headwater", "pipeline", "run", str(tmp_path / "copy.yaml")),
        *("--publish", "--master", "spark://m:7077", "--bootstrap", "b:1"),
        *("--command-config", str(tmp_path / "client.properties"), "--runs", "/runs"),
    ]
