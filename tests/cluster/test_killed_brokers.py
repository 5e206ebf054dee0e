"""Killed brokers are replaced long before their ZooKeeper sessions expire."""

import time
from collections.abc import Iterator

import pytest

from headwater.testing.embedded_cluster import EmbeddedCluster
from tests.cluster.cluster_clients import TIMEOUT_S, Clients, await_true, writing
from tests.zookeeper_server import absence

# The longest that `headwater zookeeper` allows.
SESSION_S = 60
SETTINGS = {"zookeeper.session.timeout.ms": SESSION_S * 1_000, "min.insync.replicas": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    reason = absence()
    if reason is not None:
        pytest.skip(reason)
    with EmbeddedCluster(3, SETTINGS, zookeeper=True, timeout_s=TIMEOUT_S) as started:
        yield started


def controller_of(clients: Clients) -> int:
    return int(clients.admin.describe_cluster().result(TIMEOUT_S).controller.id)


@pytest.mark.parametrize("is_controller", [False, True])
def test_killed_leader_is_replaced_before_its_session_expires(
    cluster: EmbeddedCluster, *, is_controller: bool
) -> None:
    clients = Clients(cluster.bootstrap_servers)
    topic = clients.new_topic(partitions=3)
    controller = controller_of(clients)
    victim = controller if is_controller else (controller + 1) % 3
    (partition,) = [each for each, leader in clients.leaders(topic).items() if leader == victim]
    with writing(clients.servers) as producer:
        producer.write(topic, partition, b"before")
        producer.flush()
        killed_s = time.monotonic()
        cluster.brokers[victim].kill()
        producer.write(topic, partition, b"after")
        producer.flush()
    assert producer.failed == []
    # Waiting for the session would take all of it, and this takes a few seconds.
    assert time.monotonic() - killed_s < SESSION_S
    cluster.brokers[victim].start()
    await_true(lambda: clients.in_sync(topic)[partition] == [0, 1, 2])
    for broker in cluster.brokers:
        assert "Traceback" not in broker.log_text, broker.log_text
