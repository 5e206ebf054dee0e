"""Metadata requests of an admin client that is used for many topics."""

import asyncio

from headwater.client import Admin, TopicPartition
from headwater.client.aio import Admin as AsyncAdmin
from headwater.protocol.api_key import ApiKey
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.fakes.mock_fetches import MockReading

TOPICS = [f"tea-{number}" for number in range(50)]


def test_offsets_of_many_topics_need_one_metadata_request() -> None:
    places = [TopicPartition(name, 0) for name in TOPICS]
    with (
        MockCluster(topics=dict.fromkeys(TOPICS, 1)) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        MockReading(cluster)
        assert len(admin.list_offsets(dict.fromkeys(places, -1))) == len(TOPICS)
        assert len(cluster.requests(ApiKey.METADATA)) <= 3


def test_an_admin_client_drops_unused_topics_from_its_metadata() -> None:
    """Otherwise it would request a deleted topic every second, forever."""

    async def forgets() -> bool:
        async with AsyncAdmin(bootstrap_servers="localhost:1") as admin:
            return admin._cluster.schedule.expires_topics

    assert asyncio.run(forgets())
