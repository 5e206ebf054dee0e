"""Assignment of replicas to brokers."""

from collections import Counter

import pytest

from headwater.common.ids import NodeId
from headwater.controller.replica_placer import place
from headwater.metadata.cluster_image import BrokerRegistration
from tests.simulation.labs.cluster_lab import broker, cluster_of, rng

SIX_IN_THREE_RACKS = [broker(number, f"rack-{number % 3}") for number in range(6)]
FIVE_WITHOUT_RACKS = [broker(number) for number in range(5)]


def placed(
    brokers: list[BrokerRegistration], count: int, factor: int, seed: int = 1
) -> list[tuple[NodeId, ...]]:
    return place(
        cluster_of(*brokers).brokers,
        partition_count=count,
        replication_factor=factor,
        rng=rng(seed),
    )


@pytest.mark.parametrize("brokers", [SIX_IN_THREE_RACKS, FIVE_WITHOUT_RACKS])
@pytest.mark.parametrize("seed", range(5))
def test_leaders_are_even_and_replicas_distinct(
    brokers: list[BrokerRegistration], seed: int
) -> None:
    replicas = placed(brokers, 60, 3, seed)
    leaders = Counter(each[0] for each in replicas)
    assert len(leaders) == len(brokers)
    assert max(leaders.values()) - min(leaders.values()) == 0
    assert all(len(set(each)) == 3 for each in replicas)
    held = Counter(node_id for each in replicas for node_id in each)
    assert max(held.values()) - min(held.values()) <= 6


@pytest.mark.parametrize("seed", range(5))
def test_each_replica_of_a_partition_has_its_own_rack_while_there_are_racks(seed: int) -> None:
    racks = {each.node_id: each.rack for each in SIX_IN_THREE_RACKS}
    for replicas in placed(SIX_IN_THREE_RACKS, 60, 3, seed):
        assert len({racks[node_id] for node_id in replicas}) == 3
    for replicas in placed(SIX_IN_THREE_RACKS, 60, 5, seed):
        assert sorted(Counter(racks[node_id] for node_id in replicas).values()) == [1, 2, 2]


def test_a_leaders_partitions_are_not_all_followed_by_the_same_broker() -> None:
    followers = {each[1] for each in placed(FIVE_WITHOUT_RACKS, 20, 2) if each[0] == 0}
    assert len(followers) == 4


def test_a_standalone_broker_gets_every_replica() -> None:
    assert placed([broker(7)], 3, 1) == [(7,)] * 3
