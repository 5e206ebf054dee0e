"""The Python of workers, for each kind of master."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.spark.worker_python import SCRIPT, choose_worker_python, worker_script


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.pop(name, None)


def test_workers_do_not_import_pyspark_from_its_zip_file(tmp_path: Path) -> None:
    path = f"/s/python/lib/pyspark.zip:{tmp_path}:/s/python/lib/py4j-0.10.9.9-src.zip"
    told = subprocess.run(
        [worker_script(), "-c", "import os, sys; print(os.environ['PYTHONPATH'], sys.executable)"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == [str(tmp_path), sys.executable]


def test_executors_of_a_cluster_run_the_same_path() -> None:
    assert choose_worker_python({}, is_local=False) == {}
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_executors_run_the_script_of_a_packed_environment() -> None:
    settings = {"spark.archives": "hdfs:///other.zip#data,/tmp/env.tar.gz#headwater"}
    added = choose_worker_python(settings, is_local=False)
    assert added["spark.executorEnv.PATH"].startswith("./headwater/bin:/usr/local/sbin:")
    assert os.environ["PYSPARK_PYTHON"] == SCRIPT
    # The driver's JVM finds a script of the same name.
    first, *_ = os.environ["PATH"].split(os.pathsep)
    assert (Path(first) / SCRIPT).exists()


@pytest.mark.parametrize("is_local", [True, False])
def test_the_users_python_wins(*, is_local: bool) -> None:
    choose_worker_python({"spark.pyspark.python": "/opt/python"}, is_local=is_local)
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"
    os.environ["PYSPARK_PYTHON"] = "/usr/bin/python3"
    choose_worker_python({"spark.archives": "/tmp/env.tar.gz#headwater"}, is_local=is_local)
    assert os.environ["PYSPARK_PYTHON"] == "/usr/bin/python3"
