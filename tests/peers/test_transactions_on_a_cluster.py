"""Back-to-back transactions of Kafka's Java producer on three Headwater brokers."""

from collections.abc import Iterator

import pytest

from headwater.testing import EmbeddedCluster
from tests.cluster.cluster_clients import Clients
from tests.peers.back_to_back_transactions import (
    CLUSTER,
    LOADS,
    PARTITIONS,
    Load,
    run_java,
)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedCluster(3, CLUSTER, timeout_s=180) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_no_transaction_fails(servers: str, load: Load) -> None:
    """TX-13, TX-14: each transaction begins while markers of the last one are being written."""
    topic = Clients(servers).new_topic(PARTITIONS, 3)
    result = run_java(servers, topic, load)
    assert result.failures == 0, result.printed
