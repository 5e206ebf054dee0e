"""Cluster metadata of a client, and when it is refreshed."""

import random

from headwater.client.network.bootstrap_addresses import BootstrapAddress
from headwater.client.network.cluster_metadata import BrokerNode, ClusterMetadata
from headwater.client.network.exponential_backoff import ExponentialBackoff
from headwater.client.network.metadata_refresh import MetadataRefresh
from headwater.client.network.node_api_versions import NodeApiVersions
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId, TopicPartition
from headwater.protocol.api_key import ApiKey
from headwater.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.simulation.fakes.seeded_random import SeededRandom

FIRST = TopicId(bytes(15) + b"1")
SECOND = TopicId(bytes(15) + b"2")
RANDOM = SeededRandom(random.Random(1))


def answer(*leaders: tuple[int, int], topic_id: TopicId = FIRST) -> MetadataResponse:
    """Leaders with their epochs, by partition."""
    return MetadataResponse(
        brokers=(MetadataResponseBroker(node_id=1, host="a", port=1),),
        topics=(
            MetadataResponseTopic(
                name="tea",
                topic_id=topic_id,
                partitions=tuple(
                    MetadataResponsePartition(
                        partition_index=index, leader_id=leader, leader_epoch=epoch
                    )
                    for index, (leader, epoch) in enumerate(leaders)
                ),
            ),
        ),
    )


def leaders(metadata: ClusterMetadata) -> list[tuple[int, int]]:
    return [(each.leader_id, each.leader_epoch) for each in metadata.topics["tea"].partitions]


def test_a_leader_with_an_older_epoch_is_ignored() -> None:
    """KIP-320."""
    metadata = ClusterMetadata().merged(answer((1, 5), (2, 5)), all_topics=False)
    assert leaders(metadata.merged(answer((3, 4), (4, 6)), all_topics=False)) == [(1, 5), (4, 6)]


def test_a_recreated_topic_restarts_its_leader_epochs() -> None:
    metadata = ClusterMetadata().merged(answer((1, 5)), all_topics=False)
    again = metadata.merged(answer((2, 0), topic_id=SECOND), all_topics=False)
    assert leaders(again) == [(2, 0)]


def test_leaders_of_brokers_without_epochs_are_accepted() -> None:
    metadata = ClusterMetadata().merged(answer((1, 5)), all_topics=False)
    assert leaders(metadata.merged(answer((2, -1)), all_topics=False)) == [(2, -1)]


def test_a_response_for_all_topics_drops_the_others() -> None:
    metadata = ClusterMetadata().merged(answer((1, 5)), all_topics=False)
    nothing = MetadataResponse(brokers=(MetadataResponseBroker(node_id=1),))
    assert "tea" in metadata.merged(nothing, all_topics=False).topics
    assert metadata.merged(nothing, all_topics=True).topics == {}


def test_a_leader_hint_with_a_newer_epoch_is_applied() -> None:
    """KIP-951."""
    metadata = ClusterMetadata().merged(answer((1, 5)), all_topics=False)
    node = BrokerNode(node_id=7, address=BootstrapAddress("b", 2))
    after = metadata.with_leader("tea", 0, leader_id=7, leader_epoch=6, node=node)
    assert leaders(after) == [(7, 6)]
    assert after.brokers[7] == node
    assert leaders(metadata.with_leader("tea", 0, leader_id=7, leader_epoch=5, node=node)) == [
        (1, 5)
    ]
    assert leaders(metadata.with_leader("tea", 0, leader_id=9, leader_epoch=6, node=None)) == [
        (1, 5)
    ]


def test_a_topic_is_found_by_its_id() -> None:
    metadata = ClusterMetadata().merged(answer((1, 5)), all_topics=False)
    assert metadata.topic_named(FIRST) == "tea"
    assert metadata.topic_named(SECOND) is None
    assert metadata.topics["tea"].error is ErrorCode.NONE


def schedule(max_idle_ms: int | None = None) -> MetadataRefresh:
    return MetadataRefresh(
        max_age_ms=1_000, backoff=ExponentialBackoff(100, 1_000), max_idle_ms=max_idle_ms
    )


def test_metadata_is_refreshed_when_old_and_soon_when_stale() -> None:
    plan = schedule()
    assert plan.due_ms() == 0
    plan.request(0)
    plan.succeeded(0, RANDOM, is_whole=True)
    assert plan.due_ms() == 1_000
    plan.request_update()
    assert 80 <= plan.due_ms() <= 120


def test_failures_increase_the_backoff() -> None:
    plan = schedule()
    waits = []
    for _ in range(6):
        plan.request(0)
        plan.failed(0, RANDOM)
        waits.append(plan.due_ms())
    assert waits[0] <= 120
    assert 640 <= waits[3] <= 960
    assert max(waits) <= 1_000


def test_a_response_without_a_leader_is_requested_again() -> None:
    plan = schedule()
    plan.request(0)
    plan.succeeded(0, RANDOM, is_whole=False)
    assert plan.due_ms() <= 120


def test_an_unused_topic_is_not_requested() -> None:
    plan = schedule(max_idle_ms=500)
    plan.use("old", 0)
    plan.use("new", 400)
    request = plan.request(600)
    assert request.topics is not None
    assert [topic.name for topic in request.topics] == ["new"]


def test_a_want_during_a_request_makes_another_one_due() -> None:
    plan = schedule()
    plan.request(0)
    plan.use("tea", 0)
    plan.succeeded(0, RANDOM, is_whole=True)
    assert plan.due_ms() <= 120


def test_the_highest_common_version_is_chosen() -> None:
    versions = NodeApiVersions({ApiKey.PRODUCE: (0, 7), ApiKey.FETCH: (0, 3)}, {"x": 2})
    assert versions.choose(ApiKey.PRODUCE) == 7
    assert versions.choose(ApiKey.PRODUCE, newest=5) == 5
    assert versions.highest(ApiKey.FETCH) is None
    assert versions.highest(ApiKey.METADATA) is None
    assert NodeApiVersions({ApiKey.PRODUCE: (0, 99)}, {}).choose(ApiKey.PRODUCE) == 13
    assert versions.feature("x") == 2
    assert versions.feature("y") == 0


def test_racks_of_replicas_come_from_their_brokers() -> None:
    def broker(node_id: int, rack: str | None) -> MetadataResponseBroker:
        return MetadataResponseBroker(node_id=node_id, host="a", port=1, rack=rack)

    partitions = tuple(
        MetadataResponsePartition(partition_index=index, replica_nodes=nodes)
        for index, nodes in enumerate([(1, 2), (3, 4)])
    )
    topic = MetadataResponseTopic(name="tea", topic_id=FIRST, partitions=partitions)
    brokers = (broker(1, "r1"), broker(2, "r2"), broker(3, None))
    metadata = ClusterMetadata().merged(
        MetadataResponse(brokers=brokers, topics=(topic,)), all_topics=False
    )
    assert metadata.racks_of(["tea", "coffee"]) == {
        TopicPartition("tea", 0): frozenset({"r1", "r2"}),
        TopicPartition("tea", 1): frozenset(),
    }
    silent = MetadataResponse(brokers=(broker(1, None),), topics=(topic,))
    assert ClusterMetadata().merged(silent, all_topics=False).racks_of(["tea"]) == {}


def test_a_new_topic_skips_the_backoff_unless_the_last_request_failed() -> None:
    asked = schedule()
    rng = SeededRandom(random.Random(1))
    asked.use("tea", 0)
    asked.request(0)
    asked.succeeded(10, rng, is_whole=True)
    asked.request_update()
    assert asked.due_ms() > 50
    asked.use("coffee", 11)
    assert asked.due_ms() == 0
    asked.request(11)
    asked.failed(20, rng)
    asked.use("milk", 21)
    assert asked.due_ms() > 50
