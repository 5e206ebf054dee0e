"""Encoded record batches that are sent as they are."""

import random

import pytest

from headwater.client.errors import InvalidRecord, MessageTooLarge
from headwater.client.producer.partitioner import StickyPartition
from headwater.client.producer.producer_core import ProducerCore
from headwater.client.producer.producer_settings import read_producer_settings
from headwater.client.producer.tables.prebuilt_batch import whole_batch
from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import HEADER_BYTES, Codec, read_header
from headwater.records.record import Record
from tests.simulation.fakes.mock_broker import TIMEOUT_S
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.labs.broker_lab import ScriptedClock
from tests.simulation.labs.producer_faces import OpenProducer
from tests.unit.client.producer.test_producer_faults import refusing


def a_batch(first: int = 0, count: int = 3, codec: Codec = Codec.NONE) -> bytearray:
    records = [
        Record(value=b"%d" % number, timestamp=number) for number in range(first, first + count)
    ]
    return bytearray(build_batch(records, codec=codec))


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_keeps_its_codec_and_timestamps(open_producer: OpenProducer, codec: Codec) -> None:
    with MockCluster(topics={"tea": 2}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers, compression_type="gzip"
        )
        sent = [a_batch(0, codec=codec), a_batch(3, codec=codec)]
        payloads = [bytes(each[HEADER_BYTES:]) for each in sent]
        futures = [producer.do("send_batch", "tea", 1, each) for each in sent]
        assert [producer.result(future).offset for future in futures] == [0, 3]
        log = cluster.topics["tea"][1]
        assert [each[HEADER_BYTES:] for each in log.batches] == payloads
        assert [header.base_sequence for header in log.headers] == [0, 3]
        assert [record.timestamp for record in log.records] == list(range(6))


def test_the_delivery_timeout_starts_when_a_batch_has_memory() -> None:
    """Otherwise it would be behind younger ones, and expire with them."""
    clock = ScriptedClock()
    given = {"bootstrap.servers": "127.0.0.1:9", "buffer.memory": 150, "batch.size": 100}
    settings = read_producer_settings(given, {})
    core = ProducerCore(settings, clock, SeededRandom(random.Random(3)), lambda: None)
    sticky = StickyPartition(SeededRandom(random.Random(3)), is_adaptive=True)
    core.accumulator.topic_locked("tea", lambda: sticky).resize(1)
    queue, first = whole_batch(core, "tea", 0, a_batch())
    _, second = whole_batch(core, "tea", 0, a_batch(3))
    assert core.put([(queue, first)]) is None
    claim = core.put([(queue, second)])
    assert claim is not None
    clock.move(50_000)
    core.accumulator.forget_locked(queue, core.accumulator.take_locked(queue))
    assert core.put([(queue, second)], claim) is None
    assert core.accumulator.expired_locked(clock.steady_ms(), 10_000) == []
    assert core.accumulator.expired_locked(clock.steady_ms() + 10_000, 10_000) == [second]


def test_batches_and_records_of_a_partition_keep_their_order(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)
        producer.send("tea", b"0", partition=0)
        producer.do("send_batch", "tea", 0, a_batch(1))
        producer.send("tea", b"4", partition=0)
        producer.do("flush", TIMEOUT_S)
        values = [record.value for record in cluster.topics["tea"][0].records]
    assert values == [b"0", b"1", b"2", b"3", b"4"]


def test_a_batch_that_is_too_large_for_the_broker_is_split_and_keeps_its_codec(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        cluster.script(ApiKey.PRODUCE, refusing(ErrorCode.MESSAGE_TOO_LARGE))
        future = producer.do("send_batch", "tea", 0, a_batch(count=100, codec=Codec.ZSTD))
        assert producer.result(future).offset == 0
        producer.do("flush", TIMEOUT_S)
        log = cluster.topics["tea"][0]
        assert len(log.batches) > 1
        assert {header.codec for header in log.headers} == {Codec.ZSTD}
        assert [record.value for record in log.records] == [b"%d" % each for each in range(100)]


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (bytearray(b"no batch"), "not a record batch"),
        (a_batch() + bytearray(1), "were given"),
        (a_batch() + a_batch(), "were given"),
        (bytearray(build_batch([Record()], last_offset=4)), "gaps in its offsets"),
        (bytearray(build_batch([Record()], is_control=True)), "control batch"),
    ],
)
def test_anything_but_one_whole_batch_is_rejected(
    open_producer: OpenProducer, batch: bytearray, reason: str
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        with pytest.raises(InvalidRecord, match=reason):
            producer.do("send_batch", "tea", 0, batch)


def test_a_batch_larger_than_buffer_memory_is_rejected(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers, buffer_memory=200, batch_size=100
        )
        batch = a_batch(count=1_000)
        assert read_header(batch).record_count == 1_000
        with pytest.raises(MessageTooLarge, match=r"buffer\.memory"):
            producer.do("send_batch", "tea", 0, batch)
