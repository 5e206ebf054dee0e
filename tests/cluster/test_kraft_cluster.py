"""A cluster of nodes with both roles, without ZooKeeper and without Java."""

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.broker.broker_server.local_cluster import local_cluster
from headwater.client import Admin, ConfigResource
from headwater.testing import EmbeddedCluster
from tests.cluster.cluster_clients import TIMEOUT_S, Clients, await_true, writing
from tests.cluster.test_cluster_command import HEADWATER, consecutive_ports, is_there, running

SETTINGS = {
    "broker.heartbeat.interval.ms": 500,
    # Killed nodes are noticed because they refuse connections, not by their sessions.
    "broker.session.timeout.ms": 600_000,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 4,
}
_LEADER = re.compile(r"Leader of the metadata quorum: leader=(\d+) epoch=(\d+)")


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, SETTINGS, timeout_s=TIMEOUT_S) as cluster:
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


def test_a_member_that_leaves_an_isr_below_the_minimum_is_an_eligible_leader(
    cluster: EmbeddedCluster,
) -> None:
    clients = Clients(cluster.bootstrap_servers)
    with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        topic = clients.new_topic()
        admin.alter_configs({ConfigResource.topic(topic): {"min.insync.replicas": "3"}})

        def elr() -> set[tuple[int, ...]]:
            return {each.elr for each in admin.describe_topics([topic])[topic].partitions}

        assert elr() == {()}
        cluster.brokers[2].stop()
        await_true(lambda: elr() == {(2,)})
        described = subprocess.run(
            [*HEADWATER, "topics", "describe", topic, "--bootstrap", cluster.bootstrap_servers],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "ELR" in described.splitlines()[0]
        cluster.brokers[2].start()
        await_true(lambda: all(len(isr) == 3 for isr in clients.in_sync(topic).values()))
        # Brokers learn of the last change one after the other.
        await_true(lambda: elr() == {()})


@pytest.mark.slow
def test_command_starts_and_restarts_a_cluster_without_zookeeper(tmp_path: Path) -> None:
    port = consecutive_ports(4)
    command = [*HEADWATER, "cluster", "start", "--brokers", "4"]
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
            _, complaints = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, complaints
        assert not any(is_there(each["pid"]) for each in described["brokers"])


def test_two_brokers_share_one_controller(tmp_path: Path) -> None:
    port = consecutive_ports(2)
    command = [*HEADWATER, "cluster", "start", "--brokers", "2", "--dir", str(tmp_path)]
    command += ["--base-port", str(port), "-o", "controller.quorum.election.timeout.ms=200"]
    with running(command) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "(2 brokers, KRaft controller.quorum.election.timeout.ms=200" in line
        clients = Clients(f"127.0.0.1:{port}")
        assert set(clients.leaders(clients.new_topic(partitions=2, factor=2)).values()) == {0, 1}
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, complaints) == (0, "")


def test_broker_that_cannot_start_ends_the_command_with_its_reason(tmp_path: Path) -> None:
    """The other two would wait for a majority."""
    port = consecutive_ports(3)
    command = [*HEADWATER, "cluster", "start", "--dir", str(tmp_path), "--base-port", str(port)]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 1))
        taken.listen()
        with running(command) as process:
            _, complaints = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 2
    assert complaints.count("\n") == 1
    assert complaints.startswith("headwater: broker 1 did not start: ")
    assert f"127.0.0.1:{port + 1}" in complaints
    assert "choose other ports with --base-port" in complaints


@pytest.mark.parametrize(
    ("content", "words", "reason"),
    [
        ("cluster.json", [], "has a cluster on ZooKeeper; add --zookeeper or give another --dir"),
        ("quorum.json", ["--zookeeper"], "has a cluster on KRaft; leave out --zookeeper or give"),
    ],
)
def test_directory_with_another_metadata_store_is_rejected(
    tmp_path: Path, content: str, words: list[str], reason: str
) -> None:
    (tmp_path / content).write_text('{"zookeeper": {"port": 2181}, "brokers": []}')
    done = subprocess.run(
        [*HEADWATER, "cluster", "start", "--dir", str(tmp_path), *words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"headwater: {tmp_path} {reason}")


def test_directory_is_started_with_all_its_controllers(tmp_path: Path) -> None:
    local_cluster(tmp_path, host="127.0.0.1", first_id=0, nodes=3)
    done = subprocess.run(
        [*HEADWATER, "cluster", "start", "--dir", str(tmp_path), "--brokers", "2"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"headwater: the controllers of the cluster in {tmp_path} are 0, 1, 2, and the brokers to "
        "start are 0 to 1\n"
    )
