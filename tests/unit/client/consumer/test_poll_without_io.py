"""Polls that find buffered records: without waking the loop's thread, but with all checks."""

import threading
from collections.abc import Iterator

import pytest

from headwater.client import Consumer, TopicPartition
from headwater.client.errors import ClientClosed, WokenUp
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.fakes.mock_fetches import MockReading
from tests.unit.client.consumer.polling import TIMEOUT_S, take

PLACE = TopicPartition("tea", 0)


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(topics={"tea": 1}) as made:
        yield made


@pytest.fixture
def reading(cluster: MockCluster) -> MockReading:
    made = MockReading(cluster)
    made.append(*PLACE, count=10)
    return made


def settings(cluster: MockCluster, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "auto.offset.reset": "earliest",
        "max.poll.records": 1,
        "fetch.max.wait.ms": 10,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def offsets_of(consumer: Consumer, count: int) -> list[int]:
    return [record.offset for record in take(consumer, count)]


@pytest.mark.usefixtures("reading")
def test_buffered_records_are_taken_in_the_polling_thread(cluster: MockCluster) -> None:
    took: list[threading.Thread] = []

    def deserialize(raw: bytes) -> bytes:
        took.append(threading.current_thread())
        return raw

    with Consumer(settings(cluster, value_deserializer=deserialize)) as consumer:
        consumer.assign([PLACE])
        assert offsets_of(consumer, 10) == list(range(10))
    assert took[1:] == [threading.current_thread()] * 9


@pytest.mark.usefixtures("reading")
def test_wakeup_ends_the_next_poll_without_losing_records(cluster: MockCluster) -> None:
    with Consumer(settings(cluster)) as consumer:
        consumer.assign([PLACE])
        for expected in range(10):
            assert offsets_of(consumer, 1) == [expected]
            consumer.wakeup()
            with pytest.raises(WokenUp):
                consumer.poll(TIMEOUT_S)


@pytest.mark.usefixtures("reading")
def test_buffered_records_of_a_paused_partition_are_kept(cluster: MockCluster) -> None:
    with Consumer(settings(cluster)) as consumer:
        consumer.assign([PLACE])
        assert offsets_of(consumer, 3) == [0, 1, 2]
        consumer.pause([PLACE])
        assert consumer.poll(0) == []
        consumer.resume([PLACE])
        assert offsets_of(consumer, 2) == [3, 4]


@pytest.mark.usefixtures("reading")
def test_a_seek_drops_buffered_records(cluster: MockCluster) -> None:
    with Consumer(settings(cluster)) as consumer:
        consumer.assign([PLACE])
        assert offsets_of(consumer, 3) == [0, 1, 2]
        consumer.seek(PLACE, 8)
        assert consumer.position(PLACE) == 8
        assert offsets_of(consumer, 2) == [8, 9]


def test_polls_of_buffered_records_still_auto_commit(
    cluster: MockCluster, reading: MockReading
) -> None:
    reading.append(*PLACE, count=50_000)
    chosen = settings(cluster, group_id="g", auto_commit_interval_ms=1)
    with Consumer(chosen) as consumer:
        consumer.assign([PLACE])
        taken = len(take(consumer, 1_000))
        reading.committed.clear()
        while not reading.committed.get(PLACE):
            taken += len(take(consumer, 1))
    assert taken < 50_000


@pytest.mark.usefixtures("reading")
def test_a_closed_consumer_returns_no_buffered_records(cluster: MockCluster) -> None:
    consumer = Consumer(settings(cluster))
    consumer.assign([PLACE])
    assert offsets_of(consumer, 1) == [0]
    consumer.close()
    with pytest.raises(ClientClosed):
        consumer.poll(0)


@pytest.mark.usefixtures("reading")
def test_a_deserializer_must_not_call_its_consumer(cluster: MockCluster) -> None:
    def deserialize(raw: bytes) -> bytes:
        with pytest.raises(ClientClosed, match="must not call the same client and wait"):
            consumer.position(PLACE)
        return raw

    with Consumer(settings(cluster, value_deserializer=deserialize)) as consumer:
        consumer.assign([PLACE])
        assert offsets_of(consumer, 10) == list(range(10))
