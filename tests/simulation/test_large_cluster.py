"""Fifty brokers and twenty thousand partitions: the counted cost of a failover.

docs/internals/scale.md has these counts; the tests assert what they grow with.
"""

import pytest

from headwater.common.ids import NodeId
from headwater.controller.controller import PARTITIONS_PER_WRITE
from headwater.protocol.api_key import ApiKey
from tests.simulation.simulators.large_cluster import (
    Cost,
    LargeCluster,
    led_by,
    memory_bytes,
    without_leader,
)

_MIB = 2**20


def replicas_by_broker(cluster: LargeCluster, node_id: NodeId) -> int:
    """Number of partitions on a broker."""
    leading = cluster.leading
    assert leading is not None
    return sum(
        node_id in partition.isr
        for topic in leading.image.topics.values()
        for partition in topic.partitions
    )


def check_failover(cluster: LargeCluster, gone: NodeId) -> None:
    """Every partition has a live leader."""
    leading = cluster.leading
    assert leading is not None
    leaders = led_by(leading.image)
    assert not without_leader(leading.image)
    assert gone not in leaders
    assert all(
        gone not in partition.isr
        for topic in leading.image.topics.values()
        for partition in topic.partitions
    )


def check_takeover(cost: Cost, *, brokers: int, partitions: int, held: int) -> None:
    """It reads everything, and sends everything to every broker, once each."""
    # One read for each partition's state, and some for topics and brokers.
    assert partitions < cost.znode_reads < 1.2 * partitions + 100 * brokers
    assert held < cost.znode_operations < held + 10 * brokers
    assert cost.requests[ApiKey.UPDATE_METADATA.name] <= 3 * brokers
    assert cost.requests[ApiKey.LEADER_AND_ISR.name] <= 3 * brokers
    assert cost.bytes_sent < 100 * brokers * partitions
    # Most of the work is reading.
    assert cost.events < 2 * cost.znode_reads + 1_000 * brokers


def check_death(cost: Cost, *, brokers: int, held: int) -> None:
    """It costs what the broker hosted, whatever else exists."""
    assert cost.znode_multis <= held / PARTITIONS_PER_WRITE + 4
    assert held < cost.znode_operations < held + 10
    assert cost.znode_reads < 10 * brokers
    assert sum(cost.requests.values()) < 6 * brokers
    assert cost.bytes_sent < 100 * brokers * held
    assert cost.events < 100 * brokers


def lived(brokers: int, partitions: int) -> None:
    before = memory_bytes()
    cluster = LargeCluster(brokers)
    cluster.create(partitions)
    # Each broker's image, the controller's, the store's tree, and the interpreter.
    assert memory_bytes() - before < (8 * brokers + 100) * _MIB * partitions / 20_000 + 50 * _MIB
    first = cluster.controller_id
    held = replicas_by_broker(cluster, first)
    cost = cluster.cost_of(lambda: cluster.kill(first))
    print("a controller's death", *cost.told(), sep="\n    ")
    check_failover(cluster, first)
    check_takeover(cost, brokers=brokers, partitions=partitions, held=held)
    second = next(each for each in cluster.nodes if each != cluster.controller_id)
    held = replicas_by_broker(cluster, second)
    cost = cluster.cost_of(lambda: cluster.kill(second))
    print("a broker's death", *cost.told(), sep="\n    ")
    check_failover(cluster, second)
    check_death(cost, brokers=brokers, held=held)


def test_the_cost_of_a_failover_in_a_small_cluster_is_bounded() -> None:
    lived(brokers=8, partitions=800)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("brokers", "partitions"), [(25, 10_000), (50, 20_000)])
def test_the_cost_of_a_failover_in_a_large_cluster_is_bounded(
    brokers: int, partitions: int
) -> None:
    lived(brokers, partitions)
