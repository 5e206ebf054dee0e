"""A cluster of nodes with both roles, without ZooKeeper and without Java."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.testing import EmbeddedCluster
from tests.cluster.cluster_clients import PATIENCE_S, Clients, await_true, writing
from tests.cluster.test_cluster_command import HEADWATER, consecutive_ports, is_there, running

SETTINGS = {
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 4000,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 4,
}
_LEADER = re.compile(r"Leader of the metadata quorum: leader=(\d+) epoch=(\d+)")


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, SETTINGS, kraft=True, timeout_s=PATIENCE_S) as cluster:
        yield cluster
        for broker in cluster.brokers:
            assert "Traceback" not in broker.log_text, broker.log_text


def active_controller(cluster: EmbeddedCluster) -> int:
    """Return the leader of the newest epoch that any node knows."""
    found = [
        (int(epoch), int(leader))
        for broker in cluster.brokers
        for leader, epoch in _LEADER.findall(broker.log_text)
    ]
    return max(found)[1]


def test_records_are_on_all_replicas(cluster: EmbeddedCluster) -> None:
    clients = Clients(cluster.bootstrap_servers)
    topic = clients.new_topic()
    with writing(cluster.bootstrap_servers) as producer:
        for number in range(300):
            producer.write(topic, number % 3, str(number).encode())
    assert producer.failed == []
    for partition, values in producer.acknowledged.items():
        assert clients.read(topic, partition, len(values)) == values
    assert clients.in_sync(topic) == {0: [0, 1, 2], 1: [0, 1, 2], 2: [0, 1, 2]}


def test_nothing_acknowledged_is_lost_when_the_active_controller_is_killed(
    cluster: EmbeddedCluster,
) -> None:
    clients = Clients(cluster.bootstrap_servers)
    topic = clients.new_topic()
    victim = active_controller(cluster)
    with writing(cluster.bootstrap_servers) as producer:
        for number in range(1_000):
            if number == 300:
                cluster.brokers[victim].kill()
            producer.write(topic, number % 3, str(number).encode())
        producer.flush()
        await_true(lambda: victim not in clients.leaders(topic).values())
        assert active_controller(cluster) != victim
        assert len(clients.leaders(clients.new_topic(factor=2))) == 3
    assert producer.failed == []
    for partition, values in producer.acknowledged.items():
        assert clients.read(topic, partition, len(values)) == values
    cluster.brokers[victim].start()
    await_true(lambda: all(len(isr) == 3 for isr in clients.in_sync(topic).values()))


def test_stopped_node_leads_nothing_and_returns(cluster: EmbeddedCluster) -> None:
    clients = Clients(cluster.bootstrap_servers)
    topic = clients.new_topic()
    cluster.brokers[1].stop()
    assert 1 not in clients.leaders(topic).values()
    cluster.brokers[1].start()
    await_true(lambda: all(len(isr) == 3 for isr in clients.in_sync(topic).values()))


@pytest.mark.slow
def test_command_starts_and_restarts_a_cluster_without_zookeeper(tmp_path: Path) -> None:
    port = consecutive_ports(4)
    command = [*HEADWATER, "cluster", "start", "--kraft", "--brokers", "4"]
    command += ["--dir", str(tmp_path), "--base-port", str(port)]
    names: list[str] = []
    for _ in range(2):
        with running(command) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(f"headwater ready on 127.0.0.1:{port},"), process.communicate()
            assert "KRaft controller.quorum.election.timeout.ms=300" in line
            described = json.loads((tmp_path / "cluster.json").read_text())
            clients = Clients(f"127.0.0.1:{port}")
            for name in names:
                assert len(clients.leaders(name)) == 3
            names.append(clients.new_topic(factor=3))
            process.send_signal(signal.SIGINT)
            _, complaints = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, complaints
        assert not any(is_there(each["pid"]) for each in described["brokers"])


def test_command_needs_three_brokers_for_a_quorum(tmp_path: Path) -> None:
    command = [*HEADWATER, "cluster", "start", "--kraft", "--brokers", "2", "--dir", str(tmp_path)]
    with running(command) as process:
        _, complaint = process.communicate(timeout=PATIENCE_S)
    assert complaint == "headwater: a cluster without ZooKeeper needs at least 3 brokers\n"
