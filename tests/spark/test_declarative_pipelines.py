"""An exported pipeline in Spark Declarative Pipelines, with an exactly-once sink."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.process.java import NoJava, find_java
from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import make, read, send
from tests.spark.queries import TRIES, is_too_slow

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_S = 1_200


def run(project: Path) -> None:
    """Until all that is there is processed, with a catalog that outlives the run."""
    try:
        java = find_java(os.environ)
    except NoJava as reason:
        pytest.skip(str(reason))
    for _ in range(TRIES):
        done = subprocess.run(
            [
                *[str(Path(sys.executable).with_name("spark-pipelines")), "--remote", "local[2]"],
                *["--conf", "spark.sql.catalogImplementation=hive", "run"],
            ],
            cwd=project,
            env={
                **os.environ,
                "JAVA_HOME": str(java.home),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PYSPARK_PYTHON": sys.executable,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        if not is_too_slow(done.stdout):
            break
    assert done.returncode == 0, done.stdout[-6_000:]


@pytest.mark.slow
def test_an_exported_pipeline_continues_where_it_stopped(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        make(broker, "orders", "big-orders")
        text = (EXAMPLES / "filter-and-map.yaml").read_text(encoding="utf-8")
        file = tmp_path / "big-orders.yaml"
        file.write_text(text.replace("127.0.0.1:9092", broker.bootstrap_servers), encoding="utf-8")
        project = tmp_path / "project"
        words = ["pipeline", "export", str(file), "--sdp", "-o", str(project)]
        assert CliRunner().invoke(app, words).exit_code == 0
        expected = []
        for number in range(2):
            send(broker, "orders", [("ada", json.dumps({"id": number, "amount": 200.0}))])
            send(broker, "orders", [("ben", json.dumps({"id": number, "amount": 5.0}))])
            expected.append({"customer": "ada", "id": number, "gross": 238.0})
            run(project)
            found = read(broker, "big-orders")
            assert [json.loads(each.value or b"") for each in found] == expected
        assert {each.key for each in found} == {b"ada"}
        assert [dict(each.headers) for each in found] == [{"origin": b"orders"}] * 2
