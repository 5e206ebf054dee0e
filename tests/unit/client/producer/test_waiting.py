"""Records that wait for memory or metadata: their order, and user code that runs once.

Responses are held back until all callers wait, so nothing here depends on time.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from headwater.client import Producer
from headwater.client.errors import BufferExhausted, ClientClosed
from headwater.client.producer.record_future import RecordFuture
from headwater.protocol.api_key import ApiKey
from tests.simulation.fakes.mock_broker import TIMEOUT_S, Late
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.labs.producer_faces import Face, OpenProducer
from tests.unit.client.producer.test_producer_faults import values

# Four batches fill the memory.
MEMORY_BYTES = 40_000
BATCH_BYTES = 10_000
FILLING = [b"%d" % number + bytes(BATCH_BYTES - 200) for number in range(4)]
LARGE = b"large" + bytes(35_000)
SMALL = b"small"


def until(is_met: Callable[[], bool]) -> None:
    limit_s = time.monotonic() + TIMEOUT_S
    while not is_met():
        assert time.monotonic() < limit_s, "waited in vain"
        threading.Event().wait(0.005)


class Line:
    """A producer whose memory is full until the broker answers, and callers that wait for it."""

    def __init__(self, cluster: MockCluster, producer: Face, pool: ThreadPoolExecutor) -> None:
        self.cluster = cluster
        self.producer = producer
        self._pool = pool
        self._fates = [Late() for _ in FILLING]
        cluster.script(ApiKey.PRODUCE, *self._fates)
        for value in FILLING:
            producer.send("tea", value)
        cluster.brokers[0].await_requests(ApiKey.PRODUCE, len(FILLING))

    @property
    def length(self) -> int:
        return int(self.producer.do("metrics")["waiting-threads"])

    @property
    def free_bytes(self) -> int:
        return int(self.producer.do("metrics")["buffer-available-bytes"])

    def wait(self, name: str, *args: Any, **keywords: Any) -> Future[RecordFuture]:
        """Call something that needs memory in another thread, and wait until it is queued."""
        before = self.length
        waiting = self._pool.submit(self.producer.do, name, "tea", *args, **keywords)
        until(lambda: self.length > before or waiting.done())
        assert not waiting.done()
        return waiting

    def hold_next(self) -> None:
        """Hold back one more response, which must not overtake the others."""
        self._fates.append(Late())
        self.cluster.script(ApiKey.PRODUCE, self._fates[-1])

    def answer(self, count: int) -> None:
        """Acknowledge this many batches, oldest first."""
        fates, self._fates = self._fates[:count], self._fates[count:]

        def answer() -> None:
            for fate in fates:
                fate.answer()

        self.cluster.on_loop(answer)


MakeLine = Callable[..., Line]


@pytest.fixture
def make_line(open_producer: OpenProducer) -> Iterator[MakeLine]:
    with MockCluster(topics={"tea": 1}) as cluster, ThreadPoolExecutor(8) as pool:

        def make(**settings: object) -> Line:
            producer = open_producer(
                **{
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "buffer.memory": MEMORY_BYTES,
                    "batch.size": BATCH_BYTES,
                    "linger.ms": 0,
                    "enable.idempotence": False,
                    **settings,
                }
            )
            return Line(cluster, producer, pool)

        yield make


@pytest.mark.parametrize(
    ("name", "content"), [("send", LARGE), ("send_table", pa.table({"value": [LARGE]}))]
)
def test_a_large_record_waiting_for_memory_is_not_overtaken_by_small_ones(
    make_line: MakeLine, name: str, content: object
) -> None:
    line = make_line()
    large = line.wait(name, content)
    small = [line.wait("send", SMALL) for _ in range(3)]
    line.answer(2)
    until(lambda: line.free_bytes == 2 * BATCH_BYTES)
    assert line.length == 4, "two batches are free, and are the large record's"
    line.answer(2)
    for waiting in (large, *small):
        waiting.result(TIMEOUT_S)
    line.producer.do("flush", TIMEOUT_S)
    assert values(line.cluster) == [*FILLING, LARGE, *[SMALL] * 3]
    assert line.free_bytes == MEMORY_BYTES


def test_a_timed_out_wait_for_memory_passes_it_on(make_line: MakeLine) -> None:
    line = make_line(**{"max.block.ms": 2_000})
    large = line.wait("send", LARGE)
    line.answer(2)
    with pytest.raises(BufferExhausted):
        large.result(TIMEOUT_S)
    line.hold_next()
    line.producer.send("tea", SMALL)
    line.cluster.brokers[0].await_requests(ApiKey.PRODUCE, len(FILLING) + 1)
    line.answer(3)
    line.producer.do("flush", TIMEOUT_S)
    assert values(line.cluster) == [*FILLING, SMALL]
    assert line.free_bytes == MEMORY_BYTES


def test_close_fails_callers_that_wait_for_memory(make_line: MakeLine) -> None:
    line = make_line()
    waiting = [line.wait("send", SMALL), line.wait("send_table", pa.table({"value": [SMALL]}))]
    line.producer.close(0)
    for each in waiting:
        with pytest.raises(ClientClosed):
            each.result(TIMEOUT_S)
    assert line.free_bytes == MEMORY_BYTES


def test_headers_from_a_generator_survive_a_wait_for_memory(make_line: MakeLine) -> None:
    line = make_line()
    waiting = line.wait("send", SMALL, headers=((name, b"x") for name in ("a", "b")))
    line.answer(4)
    line.producer.result(waiting.result(TIMEOUT_S))
    assert line.cluster.topics["tea"][0].records[-1].headers == (("a", b"x"), ("b", b"x"))


def test_headers_from_a_generator_survive_a_wait_for_metadata(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        producer.result(producer.send("tea", SMALL, headers=(each for each in [("a", b"x")])))
        assert cluster.topics["tea"][0].records[0].headers == (("a", b"x"),)


class Counting:
    """User code, as a serializer or partitioner, that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def serialize(self, value: bytes) -> bytes:
        self.calls += 1
        return value

    def choose(self, topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        del topic, key, value
        self.calls += 1
        return count - 1


def test_a_waiting_record_is_serialized_and_partitioned_once(make_line: MakeLine) -> None:
    """Also for the first record, which waits for its topic."""
    serializer, partitioner = Counting(), Counting()
    settings = {"value.serializer": serializer.serialize, "partitioner.class": partitioner.choose}
    line = make_line(**settings)
    waiting = line.wait("send", SMALL)
    line.answer(4)
    line.producer.result(waiting.result(TIMEOUT_S))
    assert (serializer.calls, partitioner.calls) == (5, 5)


def test_a_record_sent_during_close_is_rejected() -> None:
    """It would never complete, and its callers would wait forever."""

    async def end() -> None:
        producer._engine.end()

    def choose(*_: object) -> int:
        # Another thread closes the producer just while the record is added to a batch.
        producer._thread.run(end())
        return 0

    with MockCluster(topics={"tea": 1}) as cluster:
        producer = Producer(bootstrap_servers=cluster.bootstrap_servers, partitioner_class=choose)
        with producer, pytest.raises(ClientClosed):
            producer.send("tea", SMALL)
