"""What is special about clusters on ZooKeeper."""

from collections.abc import Iterator

import pytest

from headwater.common.exceptions import BrokerDidNotStart
from headwater.testing import EmbeddedBroker, EmbeddedCluster
from tests.cluster.cluster_clients import TIMEOUT_S, Clients, writing
from tests.zookeeper_server import absence

SETTINGS = {"zookeeper.session.timeout.ms": 4_000, "min.insync.replicas": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    reason = absence()
    if reason is not None:
        pytest.skip(reason)
    with EmbeddedCluster(3, SETTINGS, zookeeper=True, timeout_s=TIMEOUT_S) as started:
        yield started
        for broker in started.brokers:
            assert "Traceback" not in broker.log_text, broker.log_text


def test_without_zookeeper_records_flow_and_metadata_changes_wait(
    cluster: EmbeddedCluster,
) -> None:
    clients = Clients(cluster.bootstrap_servers)
    topic = clients.new_topic(partitions=3)
    # Clients ask for a coordinator, and its topic cannot be created without ZooKeeper.
    used = clients.new_topic(partitions=1)
    with writing(clients.servers) as producer:
        producer.write(used, 0, b"x")
    assert clients.read(used, 0, 1) == [b"x"]
    cluster.zookeeper.stop()
    with writing(clients.servers) as producer:
        for number in range(90):
            producer.write(topic, number % 3, b"%d" % number)
    assert producer.failed == []
    for partition in range(3):
        acknowledged = producer.acknowledged[partition]
        assert clients.read(topic, partition, len(acknowledged)) == acknowledged
    cluster.zookeeper.start()
    later = clients.new_topic(partitions=1)
    with writing(clients.servers) as producer:
        producer.write(later, 0, b"x")
    assert producer.failed == []


def test_second_broker_with_the_same_id_is_rejected(cluster: EmbeddedCluster) -> None:
    twin = EmbeddedBroker(
        {
            "node.id": 0,
            "zookeeper.connect": cluster.zookeeper.connect,
            "zookeeper.session.timeout.ms": 4_000,
        },
        timeout_s=TIMEOUT_S,
    )
    with pytest.raises(BrokerDidNotStart, match="another broker is registered as broker 0"):
        twin.start()
    twin.close()
    assert cluster.brokers[0].is_running
