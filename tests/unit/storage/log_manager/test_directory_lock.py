"""One process per log directory."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.common.exceptions import DirectoryInUse, StorageError
from headwater.storage.log_manager.directory_lock import DirectoryLock

LOCK_ELSEWHERE = """
import sys, pathlib
from headwater.common.exceptions import DirectoryInUse
from headwater.storage.log_manager.directory_lock import DirectoryLock
try:
    DirectoryLock(pathlib.Path(sys.argv[1]))
except DirectoryInUse as refusal:
    print(refusal)
else:
    print("locked")
"""

LOCK_AS_JAVA_DOES = """
import sys, fcntl
with open(sys.argv[1], "r+") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("refused")
    else:
        print("locked", flush=True)
        sys.stdin.read()
"""


def test_a_directory_is_locked_once_per_process(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        for _ in range(2):
            with pytest.raises(DirectoryInUse, match=f"{tmp_path} is in use"):
                DirectoryLock(tmp_path)
    DirectoryLock(tmp_path).release()
    assert (tmp_path / ".lock").exists()


def test_another_process_is_refused(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    command = [sys.executable, "-c", LOCK_ELSEWHERE, str(tmp_path)]
    refusal = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert refusal == f"{tmp_path} is in use: another broker holds {tmp_path}/.lock\n"
    lock.release()
    lock.release()
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "locked\n"


@pytest.mark.skipif(not hasattr(fcntl, "F_OFD_SETLK"), reason="the system has no such locks")
def test_kafka_and_headwater_exclude_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOCK_AS_JAVA_DOES, str(tmp_path / ".lock")]
    with DirectoryLock(tmp_path):
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert found == "refused\n"
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as kafka:
        assert kafka.stdout is not None
        assert kafka.stdout.readline() == "locked\n"
        with pytest.raises(DirectoryInUse):
            DirectoryLock(tmp_path)
        kafka.communicate("")
    DirectoryLock(tmp_path).release()


def test_lock_is_visible_to_flock(tmp_path: Path) -> None:
    with (
        DirectoryLock(tmp_path),
        (tmp_path / ".lock").open() as other,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_directory_that_cannot_be_locked_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        DirectoryLock(tmp_path / "none")


def test_refused_lock_leaks_no_descriptor(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        with pytest.raises(DirectoryInUse):
            DirectoryLock(tmp_path)
        assert opened(tmp_path / ".lock") == 1
    assert opened(tmp_path / ".lock") == 0


def opened(path: Path) -> int:
    """Count the descriptors of this process for a file."""
    links = (os.path.realpath(each) for each in Path("/proc/self/fd").iterdir())
    return sum(link == str(path) for link in links)
