"""Files and locks that show which pipelines run on this machine."""

import threading
from pathlib import Path

import pytest

from headwater.pipelines.run.run_files import (
    AlreadyRunning,
    NoSuchRun,
    RunFile,
    RunReport,
    is_running,
    report,
    reports,
    usual_folder,
)


def run_report(name: str) -> RunReport:
    return RunReport(
        name=name,
        file=f"/{name}.yaml",
        pid=1,
        started_ms=5,
        told_ms=6,
        state="running",
        sinks=[{"sink": "s", "lag": 3}],
    )


def test_a_run_is_listed_while_it_runs_and_afterwards(tmp_path: Path) -> None:
    with RunFile(tmp_path / "runs", "orders") as file:
        file.write(run_report("orders"))
        assert [each.is_running for each in reports(tmp_path / "runs")] == [True]
    found = report(tmp_path / "runs", "orders")
    assert found == run_report("orders")
    assert not found.is_running


def test_a_pipeline_runs_once_at_a_time(tmp_path: Path) -> None:
    with (
        RunFile(tmp_path, "orders"),
        pytest.raises(AlreadyRunning, match="orders runs already"),
        RunFile(tmp_path, "orders"),
    ):
        pass
    with RunFile(tmp_path, "orders"):
        pass


def test_pipelines_of_other_names_do_not_mind(tmp_path: Path) -> None:
    with RunFile(tmp_path, "orders"), RunFile(tmp_path, "clicks"):
        assert is_running(tmp_path, "clicks")
        assert not is_running(tmp_path, "visits")


def test_where_nothing_was_run_there_is_nothing(tmp_path: Path) -> None:
    assert reports(tmp_path / "none") == []
    with pytest.raises(NoSuchRun, match="no pipeline orders"):
        report(tmp_path, "orders")


def test_runs_are_where_the_environment_says() -> None:
    assert usual_folder({"HEADWATER_PIPELINES": "/runs"}) == Path("/runs")
    assert usual_folder({"XDG_STATE_HOME": "/s"}) == Path("/s/headwater/pipelines")


def test_who_looks_keeps_no_run_from_starting(tmp_path: Path) -> None:
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            is_running(tmp_path, "teas")

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for _ in range(500):
            with RunFile(tmp_path, "teas"):
                assert is_running(tmp_path, "teas")
        assert not is_running(tmp_path, "teas")
    finally:
        over.set()
        looker.join()
