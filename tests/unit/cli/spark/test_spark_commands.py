"""Commands that use Spark, without starting it: validation and output.

Problems must be reported before the JVM starts.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.cli.spark.mirror import _Terminal
from headwater.cli.terminal import exit_on_error
from headwater.client import Admin, Consumer, TopicPartition
from headwater.process.java import NoJava, find_java
from headwater.testing import EmbeddedBroker


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--topics", "("], "topics is not a regular expression"),
        (["--topics", "tea", "--alias", "a.b"], "letters, digits, _ and -"),
        (["--topics", "tea", "--source-setting", "nonsense=1"], "not a setting of this client"),
    ],
)
def test_invalid_mirror_options_are_rejected_at_once(options: list[str], reason: str) -> None:
    code, output = run("mirror", "127.0.0.1:1", "127.0.0.1:1", *options)
    assert code == 2
    assert reason in output


def test_mirroring_a_cluster_to_itself_is_rejected_without_starting_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Without Java, Spark would fail first.
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with EmbeddedBroker() as broker:
        here = broker.bootstrap_servers
        assert run("mirror", here, here, "--topics", "tea", "--identity", "--once") == (
            1,
            "headwater: source and target are the same cluster: "
            "topics would be copied onto themselves\n",
        )


def test_mirror_prints_its_events_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = iter((0.0, 2.0))
    terminal = _Terminal(clock=lambda: next(seconds))
    terminal.show({"event": "no topic"})
    terminal.show({"event": "topic", "topic": "tea", "copy": "source.tea"})
    terminal.show({"event": "progress", "records": 1_000, "bytes": 0, "lag": 9_000})
    terminal.show({"event": "progress", "records": 5_000, "bytes": 2**21, "lag": 5_000})
    terminal.show(
        {"event": "left out", "topic": "x", "reason": "was copied from the target cluster"}
    )
    assert capsys.readouterr().out.splitlines() == [
        "no topic matches yet",
        "copying tea to source.tea",
        "1,000 records copied, lag 9,000",
        "5,000 records copied, 2,000 records/s, 1.0 MiB/s, lag 5,000",
        "x is not copied: it was copied from the target cluster",
    ]


def test_connectors_are_listed() -> None:
    code, output = run("connect", "list", "--json")
    assert code == 0
    rows = [json.loads(line) for line in output.splitlines()]
    assert {"connector": "postgresql", "import": True, "export": True} in rows


def test_an_import_without_a_broker_fails_at_once(tmp_path: Path) -> None:
    words = ["connect", "import", "files", "tea", "--checkpoint", str(tmp_path)]
    code, output = run(*words, "--bootstrap", "127.0.0.1:1")
    assert code == 1
    assert "no broker answers" in output


def has_child(pid: int) -> bool:
    tasks = Path(f"/proc/{pid}/task")
    return any(each.read_text() for each in tasks.glob("*/children"))


def endless(command: str, here: str, there: str, folder: Path) -> list[str]:
    (folder / "rows.json").write_text('{"a": 1}\n')
    words = {
        "mirror": ["mirror", here, there, "--topics", "tea"],
        "connect": [
            *("connect", "import", "files", "tea", "-b", here, "--every", "1 second"),
            *("--checkpoint", str(folder / "in")),
            *("-o", f"path={folder}", "-o", "format=json"),
        ],
    }
    return [sys.executable, "-m", "headwater", *words[command], "--json"]


@contextmanager
def running(words: list[str]) -> Iterator["subprocess.Popen[str]"]:
    """A process that is ended when the block is left, also if the test fails."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            yield run
        except BaseException:
            run.kill()
            raise


def need_java() -> None:
    try:
        find_java(os.environ)
    except NoJava as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("command", ["mirror", pytest.param("connect", marks=pytest.mark.slow)])
def test_a_command_stopped_while_spark_starts_exits_cleanly(command: str, tmp_path: Path) -> None:
    """Ctrl-C is the harder case: PySpark would handle it meanwhile."""
    need_java()
    with EmbeddedBroker() as broker, EmbeddedBroker() as other:
        words = endless(command, broker.bootstrap_servers, other.bootstrap_servers, tmp_path)
        with running(words) as run:
            until_s = time.monotonic() + 60
            while not has_child(run.pid):
                assert run.poll() is None
                assert time.monotonic() < until_s
                threading.Event().wait(0.02)
            run.send_signal(signal.SIGINT)
            told, errors = run.communicate(timeout=120)
        for each in (broker, other):
            with Admin(bootstrap_servers=each.bootstrap_servers) as admin:
                assert admin.list_topics() == []
    assert run.returncode == 0, errors
    # Spark's usual warnings are not shown.
    assert " WARN " not in errors
    assert "log4j" not in errors
    (line,) = told.splitlines()
    assert json.loads(line).get("rows", 0) == json.loads(line).get("records", 0) == 0


@pytest.mark.slow
def test_an_import_stopped_by_a_signal_exits_cleanly(tmp_path: Path) -> None:
    """The running batch is finished first, without errors."""
    need_java()
    with EmbeddedBroker() as broker:
        here = broker.bootstrap_servers
        with running(endless("connect", here, here, tmp_path)) as run:
            with Consumer(bootstrap_servers=here, auto_offset_reset="earliest") as consumer:
                consumer.assign([TopicPartition("tea", 0)])
                until_s = time.monotonic() + 120
                while not consumer.poll(1.0):
                    assert run.poll() is None
                    assert time.monotonic() < until_s
            run.send_signal(signal.SIGINT)
            told, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors
    assert json.loads(told) == {"rows": 1}
    # A Spark worker may report a broken pipe; the query itself has not failed.
    assert "Py4J" not in errors
    assert "terminated with error" not in errors


AVRO = ("--format", "avro", "--registry", "http://127.0.0.1:1")


def without_spark(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Without Java, Spark would fail first."""
    monkeypatch.setenv("JAVA_HOME", str(folder))
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["import", "files", "tea", "--key", "b"], 2, "the key column b is not among a"),
        (["import", "files", "tea", "--every", "soon"], 2, "'soon' is not an interval such as"),
        (["import", "files", "a b"], 2, "other characters than letters"),
        (["import", "files", "tea", "-o", "maxFilesPerTrigger=x"], 2, "a positive integer"),
        (["import", "files", "tea", "-o", "format=parquet"], 1, "is not a parquet file: Parquet"),
        (
            ["export", "none", "files", "--schema", "a int"],
            1,
            "none: topic or partition does not exist",
        ),
        (["export", "tea", "files", "--schema", "a nonsense"], 1, "nonsense"),
        (["export", "tea", "files", "--schema", "a int", "--key", "b"], 2, "is not among a"),
        (["export", "tea", "files"], 2, "is required for JSON"),
        (["export", "tea", "files", "--format", "avro", "--schema", "a int"], 2, "is for JSON"),
        (
            ["export", "tea", "files", "--format", "avro"],
            2,
            "required for Avro, such as http://host:8081",
        ),
        (["import", "files", "tea", *AVRO, "--avro-schema", "none.avsc"], 2, "No such file"),
        (["import", "files", "tea", *AVRO], 1, "registry at 127.0.0.1:1 does not answer"),
    ],
)
def test_invalid_import_and_export_options_are_rejected_before_spark_starts(
    words: list[str], code: int, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_spark(monkeypatch, tmp_path)
    (tmp_path / "rows.json").write_text('{"a": 1}\n')
    common = ["--checkpoint", str(tmp_path / "in"), "-o", f"path={tmp_path}", "-o", "format=json"]
    with EmbeddedBroker() as broker:
        here = broker.bootstrap_servers
        with Admin(bootstrap_servers=here) as admin:
            admin.create_topic("tea")
        told_code, output = run("connect", words[0], *common, *words[1:], "-b", here)
    assert told_code == code, output
    assert reason in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("package", "extra"),
    [
        ("pyspark", "spark"),
        ("py4j", "spark"),
        ("numpy", "spark"),
        ("yaml", "spark"),
        ("kazoo", "cluster"),
    ],
)
def test_a_missing_package_is_reported_with_its_extra(
    package: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(typer.Exit) as end, exit_on_error():
        importlib.import_module(package)
    assert end.value.exit_code == 2
    line = f"{package} is not installed: pip install 'headwater[{extra}]'"
    assert capsys.readouterr().err == f"headwater: {line}\n"


@pytest.mark.parametrize("word", ["run", "check"])
def test_a_pipeline_without_spark_installed_fails_with_one_line(word: str, tmp_path: Path) -> None:
    """As after `make run`, which installs only the broker."""
    file = tmp_path / "tea.yaml"
    file.write_text("version: 1\n")
    missing = (
        "import sys; sys.modules.update(dict.fromkeys(['numpy', 'pandas', 'pyspark', 'yaml']))"
    )
    program = f"{missing}; from headwater.cli.entry import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "pipeline", word, str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    [line] = done.stderr.splitlines()
    assert line.endswith("is not installed: pip install 'headwater[spark]'")


def test_a_missing_module_without_an_extra_is_raised() -> None:
    with pytest.raises(ModuleNotFoundError), exit_on_error():
        importlib.import_module("headwater.nosuch")


@pytest.mark.parametrize(
    "words",
    [
        ["import", "jdbc", "t", "--checkpoint", "/ck"],
        ["export", "t", "jdbc", "--checkpoint", "/ck", "--schema", "id int"],
    ],
)
def test_connect_refuses_a_local_checkpoint_with_a_remote_master(words: list[str]) -> None:
    """Before a broker is asked: there is none."""
    code, output = run("connect", *words, "--master", "spark://m:7077", "-b", "127.0.0.1:1")
    assert code == 2
    text = " ".join(output.replace("│", " ").split())
    assert "/ck is a folder of this machine, which the executors of spark://m:7077" in text
