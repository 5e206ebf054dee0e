"""`headwater cluster start` and `headwater zookeeper`, as a user runs them."""

import importlib.util
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.cluster_clients import TIMEOUT_S, Clients, await_true
from tests.zookeeper_server import absence

HEADWATER = [sys.executable, "-P", "-m", "headwater"]


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that is killed if the test fails."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def consecutive_ports(count: int) -> int:
    """Return the first of consecutive free ports, below the ephemeral range."""
    while True:
        first = random.randrange(15_000, 30_000)
        if all(is_free(first + place) for place in range(count)):
            return first


def is_free(port: int) -> bool:
    with socket.socket() as taken:
        try:
            taken.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_zookeeper_cluster_prints_when_it_is_ready_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    reason = absence()
    if reason is not None:
        pytest.skip(reason)
    port = consecutive_ports(2)
    command = [
        *HEADWATER,
        "cluster",
        "start",
        "--zookeeper",
        "--brokers",
        "2",
        "--dir",
        str(tmp_path),
    ]
    command += ["--base-port", str(port), "-o", "offsets.topic.replication.factor=2"]
    with running(command) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"headwater ready on 127.0.0.1:{port},127.0.0.1:{port + 1} ("), (
            process.communicate()
        )
        described = json.loads((tmp_path / "cluster.json").read_text())
        assert [(each["id"], each["port"]) for each in described["brokers"]] == [
            (0, port),
            (1, port + 1),
        ]
        clients = Clients(f"127.0.0.1:{port}")
        assert len(clients.leaders(clients.new_topic(partitions=2, factor=2))) == 2
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, complaints
    pids = [described["zookeeper"]["pid"], *(each["pid"] for each in described["brokers"])]
    assert not any(map(is_there, pids))


def test_cluster_ends_with_ctrl_c_when_its_zookeeper_is_gone(tmp_path: Path) -> None:
    """Controlled shutdown is impossible then, so it is skipped; retries would take minutes."""
    reason = absence()
    if reason is not None:
        pytest.skip(reason)
    command = [
        *HEADWATER,
        "cluster",
        "start",
        "--zookeeper",
        "--brokers",
        "2",
        "--dir",
        str(tmp_path),
    ]
    command += ["--base-port", str(consecutive_ports(2))]
    with running(command) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("headwater ready on ")
        described = json.loads((tmp_path / "cluster.json").read_text())
        os.kill(described["zookeeper"]["pid"], signal.SIGKILL)
        assert (
            process.stderr.readline()
            == "headwater: ZooKeeper has exited; the brokers keep running\n"
        )
        logs = [tmp_path / f"broker-{node_id}.log" for node_id in (0, 1)]
        await_true(lambda: all("Lost connection to ZooKeeper" in log.read_text() for log in logs))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    for log in logs:
        assert "stopping without controlled shutdown" in log.read_text()


def test_zookeeper_outlives_the_brokers_and_a_dead_broker_is_shown(tmp_path: Path) -> None:
    """A user who restarts a broker by hand still needs it."""
    reason = absence()
    if reason is not None:
        pytest.skip(reason)
    port = consecutive_ports(2)
    command = [
        *HEADWATER,
        "cluster",
        "start",
        "--zookeeper",
        "--brokers",
        "2",
        "--dir",
        str(tmp_path),
    ]
    # A long session timeout, so that the dead broker is not noticed too soon.
    command += ["--base-port", str(port), "-o", "zookeeper.session.timeout.ms=60000"]
    command += ["-o", "headwater.refusing.brokers.fence=false"]
    with running(command) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("headwater ready on ")
        described = json.loads((tmp_path / "cluster.json").read_text())
        first, second = (each["pid"] for each in described["brokers"])
        os.kill(second, signal.SIGKILL)
        assert process.stderr.readline() == "headwater: broker 1 ended with exit code -9\n"
        shown = subprocess.run(
            [*HEADWATER, "cluster", "describe", "--json", "-b", f"127.0.0.1:{port}"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        rows = [json.loads(line) for line in shown.stdout.splitlines()]
        assert [(row["broker"], row["state"]) for row in rows] == [(0, "up"), (1, "unreachable")]
        os.kill(first, signal.SIGKILL)
        process.stderr.readline()
        assert process.stderr.readline() == (
            "headwater: all brokers have exited; ZooKeeper keeps running until Ctrl-C\n"
        )
        assert is_there(described["zookeeper"]["pid"])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert not is_there(described["zookeeper"]["pid"])


def test_killed_cluster_leaves_no_process_behind(tmp_path: Path) -> None:
    reason = absence()
    if reason is not None:
        pytest.skip(reason)
    command = [*HEADWATER, "zookeeper", "--dir", str(tmp_path), "--port", "0"]
    with running(command) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("headwater zookeeper ready on 127.0.0.1:")
        server_pid = int(line.partition("(pid ")[2].partition(",")[0])
        watched = os.pidfd_open(server_pid)
        process.kill()
    # It becomes readable when the server's process has ended.
    with os.fdopen(watched) as descriptor:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        assert poll.poll(TIMEOUT_S * 1_000)


def test_broker_reports_that_zookeeper_does_not_answer(tmp_path: Path) -> None:
    if importlib.util.find_spec("kazoo") is None:
        pytest.skip("kazoo is not installed")
    command = [*HEADWATER, "start", "--data", str(tmp_path), "--listen", "127.0.0.1:0"]
    command += ["--zookeeper", "127.0.0.1:1", "-o", "zookeeper.connection.timeout.ms=300"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 2
    assert "ZooKeeper at 127.0.0.1:1 does not answer within 300 ms" in done.stderr


def test_directory_of_a_standalone_broker_is_rejected_in_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "cluster.facts").write_bytes(b"")
    command = [*HEADWATER, "start", "--data", str(tmp_path), "--zookeeper", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 2
    assert "belongs to a standalone broker" in done.stderr


def test_strict_cluster_rejects_an_unknown_setting(tmp_path: Path) -> None:
    command = [*HEADWATER, "cluster", "start", "--brokers", "1", "--dir", str(tmp_path)]
    command += ["--base-port", str(consecutive_ports(1)), "--strict", "-o", "num.partitons=3"]
    with running(command) as process:
        _, complaints = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 2
    assert complaints.count("\n") == 1
    assert complaints.startswith("headwater: broker 0 did not start: ")
    assert "did you mean num.partitions? (--strict)" in complaints
