"""`headwater cluster start` and `headwater zookeeper`, as a person uses them."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.net.free_ports import free_ports
from tests.cluster.cluster_clients import PATIENCE_S, Clients
from tests.zookeeper_server import absence

HEADWATER = [sys.executable, "-P", "-m", "headwater"]


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def consecutive_ports(count: int) -> int:
    """The first of so many that nobody listens on, as far as one can tell."""
    while True:
        (first,) = free_ports("127.0.0.1", 1)
        if first + count < 65_536:
            return first


def test_a_cluster_says_when_it_is_ready_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    reason = absence()
    if reason is not None:
        pytest.skip(reason)
    port = consecutive_ports(2)
    command = [*HEADWATER, "cluster", "start", "--brokers", "2", "--dir", str(tmp_path)]
    command += ["--base-port", str(port), "-o", "offsets.topic.replication.factor=2"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
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
        _, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, complaints
    pids = [described["zookeeper"]["pid"], *(each["pid"] for each in described["brokers"])]
    assert not any(map(is_there, pids))


def test_a_cluster_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    reason = absence()
    if reason is not None:
        pytest.skip(reason)
    command = [*HEADWATER, "zookeeper", "--dir", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
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
        assert poll.poll(PATIENCE_S * 1_000)
