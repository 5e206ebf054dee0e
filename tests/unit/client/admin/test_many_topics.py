"""What an admin client costs a cluster when it is asked about many topics at once, and later."""

import asyncio

from headwater.client import Admin, TopicPartition
from headwater.client.aio import Admin as AsyncAdmin
from headwater.protocol.api_key import ApiKey
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.fakes.mock_fetches import MockReading

TOPICS = [f"tea-{number}" for number in range(50)]


def test_offsets_of_many_topics_are_one_question_for_metadata_and_not_one_for_each() -> None:
    places = [TopicPartition(name, 0) for name in TOPICS]
    with (
        MockCluster(topics=dict.fromkeys(TOPICS, 1)) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        MockReading(cluster)
        assert len(admin.list_offsets(dict.fromkeys(places, -1))) == len(TOPICS)
        assert len(cluster.requests(ApiKey.METADATA)) <= 3


def test_an_admin_client_that_lives_long_forgets_topics_that_may_be_gone() -> None:
    """It would else ask every second, for ever, for one that was deleted."""

    async def forgets() -> bool:
        async with AsyncAdmin(bootstrap_servers="localhost:1") as admin:
            return admin._cluster.schedule.forgets

    assert asyncio.run(forgets())
