"""What a session is told before it starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.spark import spark_session as sessions
from headwater.spark.exceptions import InvalidOption


def test_a_session_on_this_machine_is_tuned_for_it() -> None:
    local = sessions.tuned("local[4]", 4)
    assert local["spark.sql.shuffle.partitions"] == "4"
    assert "spark.sql.streaming.checkpointFileManagerClass" in local


def test_a_cluster_keeps_its_own_way_with_files() -> None:
    elsewhere = sessions.tuned("spark://there:7077", 4)
    assert "spark.sql.streaming.checkpointFileManagerClass" not in elsewhere


def test_the_state_of_queries_can_be_kept() -> None:
    """RocksDB's state store copies its files with Hadoop's checked local files, and no others."""
    assert "spark.hadoop.fs.file.impl" not in sessions.tuned("local[4]", 4)


def test_tasks_are_tried_again_on_this_machine() -> None:
    assert sessions.local_master(2) == "local[2,4]"


def test_what_is_no_master_is_refused_by_name() -> None:
    with pytest.raises(InvalidOption, match=r"my-app is no master; one is local\[2\]"):
        sessions.check_master("my-app")


@pytest.mark.parametrize(
    "master", ["local", "local[2,4]", "spark://a:1", "k8s://https://a", "yarn"]
)
def test_every_kind_of_master_is_taken(master: str) -> None:
    sessions.check_master(master)


def test_workers_do_not_import_pyspark_from_its_zip_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = sessions.worker_script()
    path = f"/s/python/lib/pyspark.zip:{tmp_path}:/s/python/lib/py4j-0.10.9.9-src.zip"
    monkeypatch.setenv("PYTHONPATH", path)
    told = subprocess.run(
        [script, "-c", "import os, sys; print(os.environ['PYTHONPATH'], sys.executable)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == [str(tmp_path), sys.executable]


def test_spark_logs_from_a_level_on_unless_somebody_has_said_how_to_log(tmp_path: Path) -> None:
    conf = {sessions.LOG_LEVEL: "ERROR"}
    option = sessions.logging_option(conf, {})
    assert option is not None
    text = Path(option.partition("file:")[2]).read_text()
    assert "rootLogger.level = error\n" in text
    assert "%d{yy/MM/dd HH:mm:ss}" in text
    assert sessions.logging_option({}, {}) is None
    assert sessions.logging_option({**conf, "spark.driver.extraJavaOptions": "-Da=b"}, {}) is None
    (tmp_path / "log4j2.properties").write_text("")
    assert sessions.logging_option(conf, {"SPARK_CONF_DIR": str(tmp_path)}) is None
