"""Settings of a session, before Spark starts."""

import pytest

from headwater.spark import spark_session as sessions
from headwater.spark.exceptions import InvalidOption


def test_a_local_session_is_tuned_for_this_machine() -> None:
    local = sessions.tuned("local[4]", 4)
    assert local["spark.sql.shuffle.partitions"] == "4"
    assert "spark.sql.streaming.checkpointFileManagerClass" in local


def test_a_cluster_keeps_its_own_checkpoint_files() -> None:
    remote = sessions.tuned("spark://there:7077", 4)
    assert "spark.sql.streaming.checkpointFileManagerClass" not in remote
    assert "spark.sql.shuffle.partitions" not in remote


def test_state_stores_keep_checked_local_files() -> None:
    """RocksDB's state store copies its files with Hadoop's checked local file system only."""
    assert "spark.hadoop.fs.file.impl" not in sessions.tuned("local[4]", 4)


def test_workers_are_forked_from_our_daemon() -> None:
    for master in ("local[4]", "spark://there:7077"):
        daemon = sessions.tuned(master, 4)["spark.python.daemon.module"]
        assert daemon == "headwater.spark.python_daemon"


def test_a_local_master_retries_tasks() -> None:
    assert sessions.local_master(2) == "local[2,4]"


def test_an_unknown_master_is_refused_by_name() -> None:
    with pytest.raises(InvalidOption, match=r"unknown master my-app; a master is local\[2\]"):
        sessions.check_master("my-app")


@pytest.mark.parametrize(
    "master", ["local", "local[2,4]", "spark://a:1", "k8s://https://a", "yarn", "sc://a:15002"]
)
def test_every_kind_of_master_is_accepted(master: str) -> None:
    sessions.check_master(master)
