"""The Python of workers, for each kind of master."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.spark.worker_python import SCRIPT, choose_worker_python, main, worker_script


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


@pytest.mark.parametrize(
    ("given", "started"),
    [
        # Spark starts it for the planner, whatever `spark.python.daemon.module` says.
        ("-m pyspark.daemon pyspark.worker", "-m headwater.spark.python_daemon pyspark.worker"),
        ("-m pyspark.sql.x a", "-m headwater.spark.early_worker pyspark.sql.x a"),
        ("-m headwater.spark.python_daemon w", "-m headwater.spark.python_daemon w"),
        ("program.py", "program.py"),
    ],
)
def test_workers_are_started_by_modules_of_ours(
    monkeypatch: pytest.MonkeyPatch, given: str, started: str
) -> None:
    real = sys.executable
    monkeypatch.setattr(sys, "executable", "/bin/echo")
    script = worker_script()
    told = subprocess.run([script, *given.split()], capture_output=True, text=True, check=True)
    assert told.stdout == f"{started}\n"
    monkeypatch.setattr(sys, "executable", real)
    monkeypatch.setattr(sys, "argv", [SCRIPT, *given.split()])
    executed: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, arguments: executed.append(arguments))
    main()
    assert executed == [[real, *started.split()]]


def test_executors_of_a_cluster_run_the_command_beside_the_drivers_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert choose_worker_python({}, is_local=False) == {}
    assert os.environ.pop("PYSPARK_PYTHON") == str(tmp_path / "python")
    (tmp_path / SCRIPT).touch()
    choose_worker_python({}, is_local=False)
    assert os.environ["PYSPARK_PYTHON"] == str(tmp_path / SCRIPT)


def test_the_command_runs_the_daemon_without_zip_files(monkeypatch: pytest.MonkeyPatch) -> None:
    zip_file = "/s/python/lib/pyspark.zip"
    monkeypatch.setattr(sys, "path", [zip_file, *sys.path])
    os.environ["PYTHONPATH"] = zip_file
    monkeypatch.setattr(sys, "argv", [SCRIPT, "-m", "pyspark.daemon", "pyspark.worker"])
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, arguments: started.append(arguments))
    main()
    assert started == [[sys.executable, "-m", "headwater.spark.python_daemon", "pyspark.worker"]]
    assert os.environ["PYTHONPATH"] == ""


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
