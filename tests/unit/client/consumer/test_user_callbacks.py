"""User code inside a consumer: exceptions lose no records and no commits."""

import asyncio
import struct
import time
from collections.abc import Iterator

import pytest

from headwater.client import Consumer, TopicPartition, aio
from headwater.client.errors import KafkaTimeout, SerializationFailed
from headwater.client.group_metadata import OffsetAndMetadata
from headwater.protocol.api_key import ApiKey
from tests.simulation.fakes.mock_broker import Late, Stall
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.fakes.mock_fetches import MockReading
from tests.unit.client.consumer.polling import TIMEOUT_S, take

PLACE = TopicPartition("tea", 0)


class Mine(Exception):
    """An exception that the client does not know."""


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
        "group.id": "g",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": 10,
        "retry.backoff.ms": 5,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def offsets_until(consumer: Consumer, count: int) -> list[int]:
    return [record.offset for record in take(consumer, count)]


@pytest.mark.parametrize("error", [struct.error("too short"), AttributeError("none"), Mine("mine")])
def test_an_exception_in_a_deserializer_loses_no_records(
    cluster: MockCluster, reading: MockReading, error: Exception
) -> None:
    del reading

    def deserialize(raw: bytes) -> bytes:
        if raw == b"4" and is_broken:
            raise error
        return raw

    is_broken = True
    with Consumer(settings(cluster, value_deserializer=deserialize)) as consumer:
        consumer.assign([PLACE])
        assert offsets_until(consumer, 4) == [0, 1, 2, 3]
        for _ in range(2):
            with pytest.raises(
                SerializationFailed, match=r"cannot deserialize .* at offset 4"
            ) as told:
                offsets_until(consumer, 1)
            assert told.value.__cause__ is error
            assert consumer.position(PLACE) == 4
        is_broken = False
        assert offsets_until(consumer, 6) == [4, 5, 6, 7, 8, 9]


def test_an_exception_in_a_commit_callback_loses_no_records_or_callbacks(
    cluster: MockCluster, reading: MockReading
) -> None:
    del reading
    called: list[int] = []

    def call_back(offsets: dict[TopicPartition, OffsetAndMetadata], error: object) -> None:
        assert error is None
        called.append(offsets[PLACE].offset)
        raise Mine("mine")

    polled: list[int] = []
    raised = 0
    limit_s = time.monotonic() + TIMEOUT_S
    with Consumer(settings(cluster, max_poll_records=1)) as consumer:
        consumer.assign([PLACE])
        consumer.commit_async({PLACE: 1}, call_back)
        consumer.commit_async({PLACE: 2}, call_back)
        while len(polled) < 10 or raised < 2:
            assert time.monotonic() < limit_s
            try:
                polled += [record.offset for record in consumer.poll(0.1)]
            except Mine:
                raised += 1
    assert polled == list(range(10))
    assert called == [1, 2]


def test_close_completes_asynchronous_commits(cluster: MockCluster, reading: MockReading) -> None:
    late = Late()
    cluster.script(ApiKey.OFFSET_COMMIT, late)
    told: list[object] = []

    def call_back(offsets: object, error: object) -> None:
        told.append((offsets, error))

    with Consumer(settings(cluster)) as consumer:
        consumer.assign([PLACE])
        consumer.commit_async({PLACE: 5}, call_back)
        consumer.commit_async({PLACE: 6}, call_back)
        cluster.brokers[0].await_requests(ApiKey.OFFSET_COMMIT)
        cluster.on_loop(late.answer)
    assert reading.committed == {PLACE: 6}
    assert told == [
        ({PLACE: OffsetAndMetadata(5)}, None),
        ({PLACE: OffsetAndMetadata(6)}, None),
    ]


def test_close_completes_asynchronous_commits_with_asyncio(
    cluster: MockCluster, reading: MockReading
) -> None:
    told: list[object] = []

    async def commit_and_close() -> None:
        async with aio.Consumer(settings(cluster)) as consumer:
            consumer.assign([PLACE])
            consumer.commit_async({PLACE: 5}, lambda *what: told.append(what))

    asyncio.run(commit_and_close())
    assert reading.committed == {PLACE: 5}
    assert told == [({PLACE: OffsetAndMetadata(5)}, None)]


def test_commit_callbacks_run_in_order(cluster: MockCluster, reading: MockReading) -> None:
    told: list[object] = []
    with Consumer(settings(cluster)) as consumer:
        consumer.assign([PLACE])
        consumer.commit_async({PLACE: 5}, lambda *what: told.append(what))
        consumer.commit({PLACE: 6})
        assert told == [({PLACE: OffsetAndMetadata(5)}, None)]
    assert reading.committed == {PLACE: 6}


def test_a_commit_waits_for_a_pending_one_up_to_its_own_timeout(
    cluster: MockCluster, reading: MockReading
) -> None:
    del reading
    cluster.script(ApiKey.OFFSET_COMMIT, *[Stall()] * 10)
    with Consumer(settings(cluster, default_api_timeout_ms=600_000)) as consumer:
        consumer.assign([PLACE])
        consumer.commit_async({PLACE: 5})
        cluster.brokers[0].await_requests(ApiKey.OFFSET_COMMIT)
        with pytest.raises(KafkaTimeout):
            consumer.commit({PLACE: 6}, timeout=0.2)
        consumer.close(0.2)


def test_polls_continue_while_auto_commits_are_pending(
    cluster: MockCluster, reading: MockReading
) -> None:
    del reading
    cluster.script(ApiKey.OFFSET_COMMIT, Stall())
    given = settings(cluster, enable_auto_commit=True, auto_commit_interval_ms=0)
    with Consumer(given) as consumer:
        consumer.assign([PLACE])
        take(consumer, 10)
        for _ in range(1_100):
            consumer.poll(0)
        consumer.close(0)


@pytest.mark.parametrize("timeout", [None, 5])
def test_close_has_a_default_timeout(cluster: MockCluster, timeout: float | None) -> None:
    consumer = Consumer(settings(cluster))
    consumer.close(timeout)
    assert not consumer._thread.is_running
