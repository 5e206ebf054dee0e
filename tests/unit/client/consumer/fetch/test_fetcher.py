"""The fetcher: requests, and handling of responses."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from headwater.client import Consumer, TopicPartition, aio
from headwater.protocol.api_key import ApiKey
from headwater.protocol.messages.metadata import MetadataResponse
from tests.simulation.fakes.mock_broker import Afterwards, Late
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.fakes.mock_fetches import MockReading
from tests.unit.client.consumer.polling import TIMEOUT_S, take

PLACES = [TopicPartition("tea", partition) for partition in range(3)]


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(nodes=2, topics={"tea": 3}) as made:
        yield made


def consumer_of(cluster: MockCluster, **settings: object) -> Consumer:
    return Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=10,
        retry_backoff_ms=5,
        **settings,
    )


def test_a_response_of_the_old_leader_is_dropped_after_the_new_leader_answered(
    cluster: MockCluster,
) -> None:
    reading = MockReading(cluster)
    for place in PLACES:
        reading.append(*place, count=4)
    late = Late()
    cluster.script(ApiKey.FETCH, late, node_id=0)
    with consumer_of(cluster, metadata_max_age_ms=20) as consumer:
        consumer.assign([PLACES[0], PLACES[2]])
        consumer.poll(0)
        cluster.brokers[0].await_requests(ApiKey.FETCH)
        cluster.on_loop(lambda: cluster.move_leader("tea", 0, 1))
        from_the_new_leader = take(consumer, 4)
        assert {record.partition for record in from_the_new_leader} == {0}
        # It has both partitions; only the data of the one that stayed is valid.
        cluster.on_loop(late.answer)
        from_the_old_one = take(consumer, 4)
    assert {record.partition for record in from_the_old_one} == {2}


def test_a_leader_missing_from_the_brokers_is_used_after_a_refresh(cluster: MockCluster) -> None:
    """A broker with old metadata may omit the leader from its broker list."""
    reading = MockReading(cluster)
    reading.append(*PLACES[1], count=4)
    reading.append(*PLACES[1], count=4)
    led = cluster.topics["tea"][1].leader_id

    def without_leader(answer: MetadataResponse) -> MetadataResponse:
        known = tuple(each for each in answer.brokers if each.node_id != led)
        return replace(answer, brokers=known)

    with consumer_of(cluster, max_poll_records=1, metadata_max_age_ms=20) as consumer:
        consumer.assign(PLACES[1:2])
        take(consumer, 1)
        for node_id in range(2):
            cluster.script(ApiKey.METADATA, Afterwards(without_leader), node_id=node_id)
        asked = len(cluster.brokers[0].requests(ApiKey.METADATA))
        cluster.brokers[0].await_requests(ApiKey.METADATA, asked + 2)
        reading.append(*PLACES[1], count=4)
        assert [record.offset for record in take(consumer, 11)] == list(range(1, 12))


@pytest.mark.parametrize("is_paused", [False, True], ids=["polled", "paused meanwhile"])
def test_records_of_a_large_response_stay_valid_while_others_arrive(
    cluster: MockCluster, is_paused: bool
) -> None:
    """They keep the memory of the response, which must not be reused."""
    reading = MockReading(cluster)
    for place in PLACES[::2]:
        for _ in range(20):
            reading.append(*place, count=40, padding=5_000)
    with consumer_of(cluster, max_poll_records=37) as consumer:
        consumer.assign(PLACES[::2])
        records = take(consumer, 1)
        if is_paused:
            consumer.pause([PLACES[2]])
            records += take(consumer, 700)
            consumer.resume([PLACES[2]])
        records += take(consumer, 1_600 - len(records))
    for place in PLACES[::2]:
        found = [record for record in records if record.partition == place.partition]
        assert [record.offset for record in found] == list(range(800))
        assert all(record.value == b"%d" % record.offset + b" " * 5_000 for record in found)


def test_polling_tables_uses_larger_fetches(cluster: MockCluster) -> None:
    reading = MockReading(cluster)
    for _ in range(3):
        reading.append("tea", 0, count=4)
    with consumer_of(
        cluster, max_partition_fetch_bytes=1_000, headwater_table_fetch_bytes=2_000
    ) as consumer:
        consumer.assign(PLACES[:1])
        take(consumer, 4)
        assert _asked_bytes(cluster) == {1_000}
        assert _table_rows(consumer, until=12) == 8
        # The fetch in flight still had the old size.
        reading.append("tea", 0, count=4)
        assert _table_rows(consumer, until=16) == 4
    assert _asked_bytes(cluster) == {1_000, 2_000}


@pytest.mark.parametrize("max_records", [None, 7], ids=["all", "some"])
def test_tables_of_views_and_records_may_be_polled_in_turn(
    cluster: MockCluster, max_records: int | None
) -> None:
    reading = MockReading(cluster)
    for _ in range(10):
        reading.append("tea", 0, count=4, padding=20)
    values: list[bytes | None] = []
    with consumer_of(cluster, max_poll_records=3) as consumer:
        consumer.assign(PLACES[:1])
        while len(values) < 40:
            table = consumer.poll_table(TIMEOUT_S, max_records, views=True)
            assert table.schema.field("value").type == pa.binary_view()
            values += table["value"].to_pylist()
            if len(values) < 40:
                values += [record.value for record in consumer.poll(TIMEOUT_S)]
    assert values == [b"%d" % offset + b" " * 20 for offset in range(40)]


def test_tables_of_views_are_available_with_asyncio(cluster: MockCluster) -> None:
    reading = MockReading(cluster)
    for place in PLACES:
        reading.append(*place, count=4, padding=20)

    async def read() -> list[bytes | None]:
        values: list[bytes | None] = []
        async with aio.Consumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(PLACES)
            while len(values) < 12:
                table = await consumer.poll_table(TIMEOUT_S, views=True)
                values += table["value"].to_pylist()
        return values

    expected = [b"%d" % offset + b" " * 20 for offset in range(4)] * 3
    assert sorted(map(str, asyncio.run(read()))) == sorted(map(str, expected))


def _table_rows(consumer: Consumer, *, until: int) -> int:
    rows = 0
    while consumer.position(PLACES[0]) < until:
        rows += consumer.poll_table(TIMEOUT_S).num_rows
    return rows


def _asked_bytes(cluster: MockCluster) -> set[int]:
    return {
        partition.partition_max_bytes
        for request in cluster.requests(ApiKey.FETCH)
        for topic in request.topics
        for partition in topic.partitions
    }
