"""Metrics of a real cluster while a broker is killed and comes back."""

from collections.abc import Callable

import pytest

from headwater.common.settings.setting_types import Value
from headwater.testing import EmbeddedBroker, EmbeddedCluster
from tests.cluster.cluster_clients import TIMEOUT_S, Clients, await_true
from tests.compat.brokers import scrape
from tests.zookeeper_server import absence

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Value] = {"headwater.metrics.listener": "127.0.0.1:0", "min.insync.replicas": 2}
KRAFT_SETTINGS: dict[str, Value] = {
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 4000,
}
RAFT = "kafka_server_raft_metrics_"
CONTROLLER = "kafka_controller_kafkacontroller_"
REPLICAS = "kafka_server_replicamanager_"


def total(brokers: list[EmbeddedBroker], name: str) -> float:
    return sum(scrape(each)[name] for each in brokers)


@pytest.mark.parametrize("kraft", [False, True], ids=["zookeeper", "kraft"])
def test_killed_broker_shows_in_the_metrics_until_it_is_back(kraft: bool) -> None:
    reason = None if kraft else absence()
    if reason is not None:
        pytest.skip(reason)
    settings = SETTINGS | (KRAFT_SETTINGS if kraft else {})
    with EmbeddedCluster(3, settings, zookeeper=not kraft, timeout_s=TIMEOUT_S) as cluster:
        clients = Clients(cluster.bootstrap_servers)
        replicated = clients.new_topic(partitions=3, factor=3)
        # One partition on each broker, without another replica.
        alone = clients.new_topic(partitions=3, factor=1)
        await_true(lambda: all(len(isr) == 3 for isr in clients.in_sync(replicated).values()))

        def has(name: str, value: float, living: Callable[[], list[EmbeddedBroker]]) -> None:
            await_true(lambda: total(living(), name) == value)

        def everyone() -> list[EmbeddedBroker]:
            return cluster.brokers

        has(CONTROLLER + "activecontrollercount", 1, everyone)
        has(CONTROLLER + "offlinepartitionscount", 0, everyone)
        has(REPLICAS + "underreplicatedpartitions", 0, everyone)
        assert total(cluster.brokers, REPLICAS + "leadercount") >= 6

        victim = clients.leaders(alone)[0]
        survivors = [each for number, each in enumerate(cluster.brokers) if number != victim]
        cluster.brokers[victim].kill()
        has(CONTROLLER + "activecontrollercount", 1, lambda: survivors)
        has(CONTROLLER + "offlinepartitionscount", 1, lambda: survivors)
        # The partitions of the replicated topic, of which each survivor leads one or two.
        has(REPLICAS + "underreplicatedpartitions", 3, lambda: survivors)
        has(REPLICAS + "atminisrpartitioncount", 3, lambda: survivors)
        has(REPLICAS + "underminisrpartitioncount", 0, lambda: survivors)
        if kraft:
            has(CONTROLLER + "fencedbrokercount", 1, lambda: survivors)
            assert total(survivors, RAFT + 'current_state{state="leader"}') == 1
            assert total(survivors, RAFT + "number_of_voters") == 6

        cluster.brokers[victim].start()
        has(CONTROLLER + "offlinepartitionscount", 0, everyone)
        if kraft:
            has(CONTROLLER + "fencedbrokercount", 0, everyone)
        has(REPLICAS + "underreplicatedpartitions", 0, everyone)
        # A response may come after the metadata that it is about.
        await_true(lambda: total(cluster.brokers, REPLICAS + "isrexpands_total") >= 3)
        has("kafka_server_replicafetchermanager_maxlag", 0, everyone)
