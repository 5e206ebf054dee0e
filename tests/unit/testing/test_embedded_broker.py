"""The embedded broker: real processes and their cleanup."""

import gc
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.testing import BrokerDidNotStart, EmbeddedBroker

TIMEOUT_S = 60

OWNER = """
import sys
from headwater.testing import EmbeddedBroker
broker = EmbeddedBroker().start()
print(broker.pid, broker.data_directory.parent, flush=True)
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


def connects(broker: EmbeddedBroker) -> bool:
    try:
        socket.create_connection(("127.0.0.1", broker.port), timeout=TIMEOUT_S).close()
    except ConnectionRefusedError:
        return False
    return True


def wait_for_end(pid: int) -> None:
    """Wait for a process that is not our child; it may have ended already."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    ended = poll.poll(TIMEOUT_S * 1_000)
    os.close(descriptor)
    assert ended, f"process {pid} is still there"


def owner(code: str) -> tuple[subprocess.Popen[str], int, Path]:
    """A process that has started a broker, with the broker's pid and folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER + code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    pid, folder = process.stdout.readline().split()
    return process, int(pid), Path(folder)


def end(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=TIMEOUT_S)


def test_it_serves_on_a_free_local_port(broker: EmbeddedBroker) -> None:
    assert re.fullmatch(r"127\.0\.0\.1:[0-9]+", broker.bootstrap_servers)
    assert connects(broker)
    assert broker.is_running


def test_two_brokers_are_independent(broker: EmbeddedBroker) -> None:
    with EmbeddedBroker() as other:
        assert other.port != broker.port
        assert other.data_directory != broker.data_directory


def test_close_ends_the_process_and_removes_its_folder() -> None:
    with EmbeddedBroker() as broker:
        folder = broker.data_directory.parent
        pid = broker.pid
        assert folder.exists()
    assert not connects(broker)
    assert not folder.exists()
    assert not Path(f"/proc/{pid}").exists()
    broker.close()


def test_a_garbage_collected_broker_is_ended() -> None:
    broker = EmbeddedBroker().start()
    pid, folder = broker.pid, broker.data_directory.parent
    del broker
    gc.collect()
    wait_for_end(pid)
    assert not folder.exists()


def test_a_given_data_directory_is_kept(tmp_path: Path) -> None:
    with EmbeddedBroker(data_directory=tmp_path / "kept") as broker:
        broker.stop()
        first = (tmp_path / "kept/meta.properties").read_bytes()
    with EmbeddedBroker(data_directory=tmp_path / "kept"):
        assert (tmp_path / "kept/meta.properties").read_bytes() == first


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_restart_keeps_port_and_folder(ending: str) -> None:
    with EmbeddedBroker() as broker:
        address, folder, pid = broker.bootstrap_servers, broker.data_directory, broker.pid
        getattr(broker, ending)()
        assert not broker.is_running
        assert not connects(broker)
        broker.restart()
        assert connects(broker)
        assert (broker.bootstrap_servers, broker.data_directory) == (address, folder)
        assert broker.pid != pid


def test_stop_shuts_down_cleanly_and_kill_does_not() -> None:
    with EmbeddedBroker() as broker:
        broker.kill()
        assert "Stopping" not in broker.log_text
        broker.start()
        broker.stop()
        assert "Stopping" in broker.log_text


def test_settings_are_passed_to_the_broker() -> None:
    with pytest.raises(BrokerDidNotStart, match=r"num\.partitions=0: must be between 1"):
        EmbeddedBroker({"num.partitions": 0}).start()
    with EmbeddedBroker({"metric.reporters": "x", "auto.create.topics.enable": False}) as broker:
        assert "Setting has no effect: name=metric.reporters" in broker.log_text


def test_custom_listeners_give_the_bootstrap_address(tmp_path: Path) -> None:
    listeners = "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"
    protocols = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"
    with EmbeddedBroker(
        {"listeners": listeners, "listener.security.protocol.map": protocols},
        data_directory=tmp_path,
    ) as broker:
        assert connects(broker)


def test_a_failed_start_raises_the_log_and_leaves_nothing(tmp_path: Path) -> None:
    with EmbeddedBroker(data_directory=tmp_path) as broker:
        other = EmbeddedBroker(data_directory=tmp_path)
        with pytest.raises(BrokerDidNotStart, match=r"exited with code 2(.|\n)*is in use"):
            other.start()
        assert not other.is_running
        other.close()
        assert broker.is_running


def test_a_broker_outlives_the_thread_that_started_it() -> None:
    started: list[EmbeddedBroker] = []
    thread = threading.Thread(target=lambda: started.append(EmbeddedBroker().start()))
    thread.start()
    thread.join()
    with started[0] as broker:
        # A whole request and response, long enough for a signal at the end of the thread.
        broker.restart()
        assert connects(broker)
        assert broker.is_running


def test_the_broker_of_a_killed_process_ends_and_its_folder_is_removed() -> None:
    process, pid, folder = owner("sys.stdin.read()")
    assert folder.exists()
    process.send_signal(signal.SIGKILL)
    end(process)
    wait_for_end(pid)
    assert not folder.exists()
    assert not folder.with_name(f"{folder.name}.gone").exists()


def test_the_broker_of_a_process_that_exits_without_close_ends() -> None:
    for code in ("1 / 0", "import os; os._exit(1)"):
        process, pid, folder = owner(f"sys.stderr.close()\n{code}")
        end(process)
        wait_for_end(pid)
        assert not folder.exists(), code


def test_a_forked_process_neither_ends_nor_keeps_the_broker() -> None:
    """The fork has a copy of the object and of the pipe, and outlives its parent."""
    code = """
import os, signal
if os.fork() == 0:
    broker.close()
    print(os.getpid(), flush=True)
    signal.pause()
sys.stdin.read()
"""
    process, pid, folder = owner(code)
    assert process.stdout is not None
    fork_pid = int(process.stdout.readline())
    try:
        assert folder.exists()
        os.kill(pid, 0)
        process.kill()
        wait_for_end(pid)
        assert not folder.exists()
    finally:
        os.kill(fork_pid, signal.SIGKILL)
        process.kill()
        end(process)


def test_without_pidfd_the_pipe_detects_the_end_of_the_parent(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    code = "import os; del os.pidfd_open\nfrom headwater.testing.child import main\nmain()\n"
    arguments = ["start", "--listen", "127.0.0.1:0", "--data", str(folder / "data")]
    with subprocess.Popen(
        [sys.executable, "-c", code, str(os.getpid()), str(folder), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline().startswith(b"headwater ready")
        child.stdin.close()
        assert child.wait(TIMEOUT_S) == 3
    assert not folder.exists()


def test_a_child_whose_parent_has_exited_does_not_start() -> None:
    child = subprocess.run(
        [sys.executable, "-m", "headwater.testing.child", "1", "-", "start"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert child.returncode == 3
    assert child.stdout == b""
