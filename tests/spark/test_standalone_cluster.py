"""Pipelines and programs on a standalone Spark cluster with two workers.

The workers' environment does not name the tests' Python, and their working folders do not hold the
package: a run must bring executors all that they need.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.process.java import NoJava, find_java
from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import make, read, send
from tests.spark.standalone import executor_logs, standalone_cluster

# For executors that share two cores with everything else.
_CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
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
def test_a_pipeline_runs_on_a_standalone_cluster(
    cluster: tuple[str, Path], spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    master, folder = cluster
    make(spark_broker, "orders", "totals")
    send(
        spark_broker,
        "orders",
        [(None, f'{{"product": "p{at % 3}", "amount": {at}}}') for at in range(30)],
    )
    file = tmp_path / "totals.yaml"
    file.write_text(
        _PIPELINE.format(
            bootstrap=spark_broker.bootstrap_servers,
            checkpoint=f"file://{tmp_path}/checkpoint",
            master=master,
            conf="\n    ".join(f'{name}: "{value}"' for name, value in _CONF.items()),
        )
    )
    done = _run("-m", "headwater", "pipeline", "run", "--once", str(file), "--runs", str(tmp_path))
    assert done.returncode == 0, done.stderr + executor_logs(folder)
    # Nothing but progress: what Spark and its workers print is in its log.
    assert done.stderr == ""
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["totals-to-totals"] * len(
        done.stdout.splitlines()
    )
    assert (tmp_path / "totals.spark.log").exists()
    found = {each.key: each.value for each in read(spark_broker, "totals")}
    assert found == {
        f"p{each}".encode(): f'{{"product":"p{each}","total":{total}}}'.encode()
        for each, total in enumerate([135, 145, 155])
    }
    # Tasks ran in executors, forked by our daemon.
    assert len(list(folder.glob("work-*/*/*/stderr"))) >= 2


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")
    }
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
