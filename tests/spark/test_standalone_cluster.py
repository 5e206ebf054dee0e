"""Pipelines and programs on a standalone Spark cluster with two workers.

The workers' environment does not name the tests' Python, and their working folders do not hold the
package: a run must bring executors all that they need.
"""

import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest

from headwater.pipelines.run.run_files import report
from headwater.pipelines.run.run_topic import RunTopic
from headwater.process.java import NoJava, find_java
from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import await_records, make, read, send
from tests.spark.standalone import QUICK_JAVA, executor_logs, standalone_cluster

_PROGRAM = Path(__file__).with_name("copy_program.py")
# For executors that share two cores with everything else.
_CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.driver.host": "127.0.0.1",
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.executor.memory": "600m",
    "spark.sql.shuffle.partitions": "2",
}

_PIPELINE = """\
version: 1
name: totals
bootstrap: {bootstrap}
checkpoint: {checkpoint}
session:
  master: {master}
  conf:
    {conf}
sources:
  orders:
    subscribe: orders
    startingOffsets: earliest
    decode: {{value: {{json: "product string, amount int"}}}}
steps:
  totals: {{sql: "select product, sum(amount) as total from orders group by product"}}
sinks:
  - {{from: totals, topic: totals, mode: update, key: product}}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    try:
        find_java(os.environ)
    except NoJava as reason:
        pytest.skip(str(reason))
    folder = tmp_path_factory.mktemp("standalone")
    with standalone_cluster(folder) as master:
        yield master, folder


@pytest.mark.timeout(900)
def test_pipeline_runs_on_a_standalone_cluster(
    cluster: tuple[str, Path], spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    master, folder = cluster
    make(spark_broker, "orders", "totals")
    send(
        spark_broker,
        "orders",
        [(None, f'{{"product": "p{at % 3}", "amount": {at}}}') for at in range(30)],
    )
    file = _written(tmp_path, _PIPELINE, spark_broker, master)
    done = _run("-m", "headwater", "pipeline", "run", "--once", str(file), "--runs", str(tmp_path))
    assert done.returncode == 0, done.stderr + executor_logs(folder)
    # Nothing but progress: what Spark and its workers print is in its log.
    assert done.stderr == ""
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["totals-to-totals"] * len(
        done.stdout.splitlines()
    )
    # Planner, stream reader and tasks end without a word, too.
    assert "Traceback" not in (tmp_path / "totals.spark.log").read_text()
    found = {each.key: each.value for each in read(spark_broker, "totals")}
    assert found == {
        f"p{each}".encode(): f'{{"product":"p{each}","total":{total}}}'.encode()
        for each, total in enumerate([135, 145, 155])
    }
    # Other machines see the run without an option.
    with RunTopic({"bootstrap.servers": spark_broker.bootstrap_servers}) as topic:
        assert topic.refresh().runs["totals"].state == "finished"
    # Tasks ran in executors, forked by our daemon.
    assert len(list(folder.glob("work-*/*/*/stderr"))) >= 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_submitted_pipeline_is_listed_and_stopped_through_its_topic(
    cluster: tuple[str, Path], spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """The driver is a process of its own on this machine."""
    master, folder = cluster
    make(spark_broker, "submitted-orders", "submitted-totals")
    send(spark_broker, "submitted-orders", [(None, '{"product": "p", "amount": 7}')])
    text = _PIPELINE.replace("name: totals", "name: submitted")
    text = text.replace("subscribe: orders", "subscribe: submitted-orders")
    text = text.replace("topic: totals", "topic: submitted-totals")
    file = _written(tmp_path, text, spark_broker, master)
    command = ("-m", "headwater", "pipeline")
    brokers = ("--bootstrap", spark_broker.bootstrap_servers)
    done = _run(*command, "submit", str(file), "--runs", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr + executor_logs(folder)
    told = json.loads(done.stdout)
    try:
        assert (told["pipeline"], told["state"]) == ("submitted", "running")
        await_records(spark_broker, "submitted-totals", 1)
        # From another machine: without the files of runs.
        elsewhere = tmp_path / "elsewhere"
        listed = _run(*command, "list", *brokers, "--json")
        rows = {each["pipeline"]: each for each in map(json.loads, listed.stdout.splitlines())}
        found = rows["submitted"]
        assert (found["state"], found["pid"]) == ("running", told["pid"])
        status = _run(*command, "status", "submitted", *brokers, "--json", "--runs", str(elsewhere))
        (sink,) = map(json.loads, status.stdout.splitlines())
        assert (sink["run"], sink["state"]) == ("running", "running")
        again = _run(*command, "submit", str(file), "--runs", str(tmp_path))
        assert (again.returncode, "runs already" in again.stderr) == (1, True)
        stopped = _run(*command, "stop", "submitted", *brokers, "--timeout", "240")
        assert stopped.returncode == 0, stopped.stderr
        assert report(tmp_path, "submitted").state == "stopped"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(told["pid"], signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_program_runs_on_a_standalone_cluster(
    cluster: tuple[str, Path], spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    done = _copy(cluster, spark_broker, "program", f"file://{tmp_path}/checkpoint")
    assert (done.returncode, done.stdout) == (0, "copied\n"), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_program_of_spark_submit_runs_on_its_master(
    cluster: tuple[str, Path], spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """The program names no master and no settings: they are those of `spark-submit`."""
    master, _ = cluster
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    words = [word for name, value in _CONF.items() for word in ("--conf", f"{name}={value}")]
    topics = _topics(spark_broker, "submitted")
    program = [str(_PROGRAM), "-", *topics, f"file://{tmp_path}/checkpoint"]
    environment = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java(os.environ).home)}
    done = _execute([submit, "--master", master, *words, *program], environment)
    assert (done.returncode, done.stdout) == (0, "copied\n"), done.stderr
    _assert_copied(spark_broker, "submitted")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_executors_unpack_a_packed_environment(
    cluster: tuple[str, Path], spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Executors run the Python of their machine, which does not have the package."""
    archive = tmp_path / "package.tar.gz"
    done = _run("-m", "headwater", "pipeline", "package", "--output", str(archive))
    assert done.returncode == 0, done.stderr
    # The same version as the tests', on the path of workers.
    python = Path(sys._base_executable)  # type: ignore[attr-defined]
    settings = [
        f"spark.archives={archive}#headwater",
        f"spark.executorEnv.HEADWATER_PYTHON={python}",
    ]
    done = _copy(cluster, spark_broker, "packed", f"file://{tmp_path}/checkpoint", *settings)
    assert (done.returncode, done.stdout) == (0, "copied\n"), done.stderr
    _, folder = cluster
    assert list(folder.glob("work-*/*/*/headwater/lib/headwater/records/kernel/_kernel*.so"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_executor_without_the_package_says_so_in_one_line(
    cluster: tuple[str, Path], spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    script = tmp_path / "bin" / "headwater-python"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys._base_executable} "$@"\n')  # type: ignore[attr-defined]
    script.chmod(0o755)
    archive = tmp_path / "empty.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(script, "bin/headwater-python")
    make(spark_broker, "orders-of-none", "totals-of-none")
    send(spark_broker, "orders-of-none", [(None, '{"product": "p", "amount": 1}')])
    master, _ = cluster
    text = _PIPELINE.replace("subscribe: orders", "subscribe: orders-of-none")
    text = text.replace("topic: totals", "topic: totals-of-none")
    text = text.replace("session:\n", f"session:\n  package: {archive}\n")
    text += "on_error: {{restart: {{max: 0}}}}\n"
    file = _written(tmp_path, text, spark_broker, master)
    done = _run("-m", "headwater", "pipeline", "run", "--once", str(file), "--runs", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "headwater: totals-to-totals-of-none: the Python of an executor has no package headwater: "
        "install it there, or ship an environment with headwater pipeline package; see the guide "
        "Running on a cluster",
        f"headwater: Spark's log is {tmp_path}/totals.spark.log",
    ]


def _written(folder: Path, text: str, broker: EmbeddedBroker, master: str) -> Path:
    file = folder / "totals.yaml"
    file.write_text(
        text.format(
            bootstrap=broker.bootstrap_servers,
            checkpoint=f"file://{folder}/checkpoint",
            master=master,
            conf="\n    ".join(f'{name}: "{value}"' for name, value in _CONF.items()),
        )
    )
    return file


def _topics(broker: EmbeddedBroker, name: str) -> tuple[str, str, str]:
    make(broker, f"{name}-in", f"{name}-out")
    send(broker, f"{name}-in", [(str(at), f"row {at}") for at in range(20)])
    return broker.bootstrap_servers, f"{name}-in", f"{name}-out"


def _copy(
    cluster: tuple[str, Path], broker: EmbeddedBroker, name: str, checkpoint: str, *settings: str
) -> subprocess.CompletedProcess[str]:
    """Run the program on the cluster and check what it has copied."""
    master, _ = cluster
    conf = [f"{setting}={value}" for setting, value in _CONF.items()]
    topics = _topics(broker, name)
    done = _run(str(_PROGRAM), master, *topics, checkpoint, *conf, *settings)
    if done.returncode == 0:
        _assert_copied(broker, name)
    return done


def _assert_copied(broker: EmbeddedBroker, name: str) -> None:
    found = sorted(each.value or b"" for each in read(broker, f"{name}-out"))
    assert found == sorted(f"ROW {at}".encode() for at in range(20))


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return _execute([sys.executable, "-P", *arguments], {})


def _execute(command: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")
    }
    return subprocess.run(
        command, env={**environment, **variables}, capture_output=True, text=True, check=False
    )
