"""The daemon that forks Spark's Python workers, without Spark."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.spark.python_daemon import (
    FreezingCollector,
    QuietTraceback,
    modules_for,
    preload,
    use_installed_pyspark,
)


@pytest.fixture
def _thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_thawed")
def test_objects_are_frozen_after_imports_and_not_after_every_task() -> None:
    collector = FreezingCollector()
    collector.collect()
    frozen = gc.get_freeze_count()
    assert frozen > 1_000
    kept: list[list[int]] = [[] for _ in range(1_000)]
    collector.collect()
    assert gc.get_freeze_count() <= frozen, "a task's objects must stay collectable"
    sys.modules["tests.fake_import"] = sys
    try:
        collector.collect()
    finally:
        del sys.modules["tests.fake_import"]
    assert gc.get_freeze_count() > frozen
    assert kept


def test_a_worker_of_tasks_gets_source_and_sink() -> None:
    assert modules_for("pyspark.worker")[0] == "pyspark.worker"
    assert "headwater.spark.source.readers" in modules_for("pyspark.worker")
    assert modules_for("pyspark.sql.worker.create_data_source")[0].endswith("create_data_source")


def test_imports_print_nothing_to_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark reads the daemon's port there."""
    (tmp_path / "chatty_module.py").write_text("print('hello')")
    monkeypatch.syspath_prepend(tmp_path)
    preload(["no_such_module", "chatty_module"])
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "hello\n")


def test_zip_files_stay_if_pyspark_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    zip_file = "/s/python/lib/pyspark.zip"
    monkeypatch.setattr(sys, "path", [zip_file])
    use_installed_pyspark()
    assert sys.path == [zip_file]


def test_an_installed_pyspark_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    zips = ["/s/python/lib/pyspark.zip", "/s/python/lib/py4j-0.10.9.9-src.zip"]
    monkeypatch.setattr(sys, "path", [*zips, *sys.path])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*zips, str(tmp_path)]))
    use_installed_pyspark()
    assert not any(each in sys.path for each in zips)
    assert os.environ["PYTHONPATH"] == str(tmp_path)


@pytest.mark.parametrize(
    ("error", "is_printed"), [(BrokenPipeError(32, "Broken pipe"), False), (ValueError("no"), True)]
)
def test_a_closed_connection_is_no_traceback(
    error: Exception, capsys: pytest.CaptureFixture[str], *, is_printed: bool
) -> None:
    try:
        raise error
    except (OSError, ValueError):
        QuietTraceback().print_exc()
    assert bool(capsys.readouterr().err) is is_printed
