"""Stopping brokers end within the time that docs/reference/settings.md names."""

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.testing.embedded_broker import EmbeddedBroker
from headwater.testing.embedded_cluster import EmbeddedCluster
from tests.cluster.cluster_clients import TIMEOUT_S, Clients, await_true
from tests.zookeeper_server import absence, real_zookeeper

SETTINGS = {"zookeeper.session.timeout.ms": 4_000}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    reason = absence()
    if reason is not None:
        pytest.skip(reason)
    with EmbeddedCluster(2, SETTINGS, zookeeper=True, timeout_s=TIMEOUT_S) as started:
        yield started


def controller_of(cluster: EmbeddedCluster) -> EmbeddedBroker:
    # A partition with replicas on both, so that there is a leadership to move.
    clients = Clients(cluster.bootstrap_servers)
    clients.new_topic(partitions=2, factor=2)
    return cluster.brokers[clients.admin.list_topics(timeout=TIMEOUT_S).controller_id]


@pytest.mark.parametrize("is_killed", [True, False])
def test_brokers_stop_while_zookeeper_does_not_answer(
    cluster: EmbeddedCluster, *, is_killed: bool
) -> None:
    controller = controller_of(cluster)
    (other,) = [each for each in cluster.brokers if each is not controller]
    os.kill(cluster.zookeeper.server_pid, signal.SIGSTOP)
    try:
        os.kill(controller.pid, signal.SIGTERM)
        if is_killed:
            os.kill(cluster.zookeeper.server_pid, signal.SIGKILL)
        await_true(lambda: not controller.is_running)
        os.kill(other.pid, signal.SIGTERM)
        await_true(lambda: not other.is_running)
    finally:
        if not is_killed:
            os.kill(cluster.zookeeper.server_pid, signal.SIGCONT)
    for broker in cluster.brokers:
        assert "Traceback" not in broker.log_text, broker.log_text


def stopped_while_it_starts(connect: str, folder: Path, sign: str) -> None:
    """Start a broker, stop it when its log has this text, and expect a clean end."""
    command = [sys.executable, "-P", "-m", "headwater", "start", "--listen", "127.0.0.1:0"]
    command += ["--zookeeper", connect, "--node-id", "0", "--data", str(folder)]
    command += ["-o", "zookeeper.connection.timeout.ms=600000"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as broker:
        try:
            assert broker.stderr is not None
            said = ""
            for line in broker.stderr:
                said += line
                if sign in line:
                    break
            broker.terminate()
            out, rest = broker.communicate(timeout=TIMEOUT_S)
        finally:
            broker.kill()
    assert sign in said, said
    assert "Traceback" not in said + rest, said + rest
    assert (broker.returncode, out) == (0, ""), said + rest


def test_broker_that_waits_for_zookeeper_can_be_stopped(tmp_path: Path) -> None:
    if absence() is not None:
        pytest.skip(absence() or "")
    # No process listens on this port.
    stopped_while_it_starts("127.0.0.1:1", tmp_path, "Waiting for ZooKeeper")


def test_broker_that_waits_for_a_controller_can_be_stopped(tmp_path: Path) -> None:
    with real_zookeeper() as zookeeper:
        client = importlib.import_module("kazoo.client").KazooClient(zookeeper.connect)
        client.start(timeout=TIMEOUT_S)
        # A persistent znode of a broker that does not exist.
        client.create("/controller", b'{"version":1,"brokerid":9,"timestamp":"1"}')
        client.stop()
        client.close()
        stopped_while_it_starts(zookeeper.connect, tmp_path, "Registered: ")
