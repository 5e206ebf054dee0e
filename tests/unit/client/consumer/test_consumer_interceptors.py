"""Consumer interceptors: they see polled records and commits, and cannot stop the consumer."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from headwater.client import Consumer, ConsumerRecord, OffsetAndMetadata, TopicPartition, aio
from headwater.client.errors import InvalidSetting
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.fakes.mock_fetches import MockReading
from tests.unit.client.consumer.polling import take

PLACE = TopicPartition("tea", 0)
Offsets = dict[TopicPartition, OffsetAndMetadata]


class Watching:
    """Records what it sees, and drops records with odd offsets."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.committed: list[Offsets] = []

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        self.seen += [record.offset for record in records]
        return [record for record in records if record.offset % 2 == 0]

    def on_commit(self, offsets: Offsets) -> None:
        self.committed.append(offsets)


class Broken:
    """Fails in every method."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        raise LookupError(records)

    def on_commit(self, offsets: Offsets) -> None:
        raise LookupError(offsets)


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(topics={"tea": 1}) as made:
        MockReading(made).append(*PLACE, count=10)
        yield made


def settings(cluster: MockCluster, *interceptors: object) -> dict[str, object]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "g",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "interceptor.classes": list(interceptors),
    }


def test_an_interceptor_may_change_polled_records(
    cluster: MockCluster,
) -> None:
    watching = Watching()
    with Consumer(settings(cluster, watching)) as consumer:
        consumer.assign([PLACE])
        assert [record.offset for record in take(consumer, 5)] == [0, 2, 4, 6, 8]
    assert watching.seen == list(range(10))


def test_an_interceptor_sees_every_successful_commit(cluster: MockCluster) -> None:
    watching = Watching()
    with Consumer(settings(cluster, watching)) as consumer:
        consumer.assign([PLACE])
        consumer.commit({PLACE: 3})
        assert watching.committed == [{PLACE: OffsetAndMetadata(3)}]
        consumer.commit_async({PLACE: 4})
    assert watching.committed == [{PLACE: OffsetAndMetadata(3)}, {PLACE: OffsetAndMetadata(4)}]


def test_a_failing_interceptor_does_not_stop_polls_commits_or_other_interceptors(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    watching = Watching()
    with (
        caplog.at_level(logging.WARNING),
        Consumer(settings(cluster, Broken(), watching)) as consumer,
    ):
        consumer.assign([PLACE])
        assert len(take(consumer, 5)) == 5
        consumer.commit({PLACE: 3})
    assert watching.seen == list(range(10))
    assert watching.committed == [{PLACE: OffsetAndMetadata(3)}]
    assert caplog.messages[0] == "Interceptor failed: method=on_consume"
    assert caplog.messages[-1] == "Interceptor failed: method=on_commit"


def test_the_asyncio_consumer_calls_interceptors(cluster: MockCluster) -> None:
    watching = Watching()

    async def read() -> list[int]:
        async with aio.Consumer(settings(cluster, watching)) as consumer:
            consumer.assign([PLACE])
            offsets: list[int] = []
            while len(offsets) < 5:
                offsets += [record.offset for record in await consumer.poll(1.0)]
            await consumer.commit()
            return offsets

    assert asyncio.run(read()) == [0, 2, 4, 6, 8]
    assert [each[PLACE].offset for each in watching.committed] == [10]


def test_a_string_is_not_a_list_of_interceptors(cluster: MockCluster) -> None:
    with pytest.raises(InvalidSetting, match="must be a list of objects"):
        Consumer({**settings(cluster), "interceptor.classes": "com.example.Watching"})
