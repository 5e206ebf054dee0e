"""We read batches of other clients, and they read ours.

The clients are kafka-python (pure Python), aiokafka (compiled) and librdkafka, whose codecs are its
own C code. librdkafka has a mock cluster: its producer writes there and raw bytes are fetched, or
raw bytes are produced there and its consumer reads them.
"""

import random
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from headwater.common.exceptions import BatchError
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.arrow_columns import decode_batches, encode_columns
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import HEADER_BYTES, Codec, read_header
from headwater.records.batch_sealing import seal_batch
from headwater.records.batch_validator import check_client_batch, corrected
from headwater.records.checksum import check_crc
from headwater.records.compression import compress
from headwater.records.kernel import check_records, scan
from headwater.records.payload import record_section
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from tests.compat.foreign import load

aiokafka = load("aiokafka.record.default_records")
kafka_python = load("kafka.record.default_records")

RECORDS = [
    Record(
        key=b"key-%d" % number if number % 3 else None,
        value=b"value %d " % number * 40 if number % 5 else None,
        timestamp=1_700_000_000_000 + 7 * number,
        headers=(("trace", b"%d" % number), ("empty", b""), ("none", None)) if number % 2 else (),
        offset=number,
    )
    for number in range(400)
]
PRODUCER: dict[str, Any] = {"producer_id": 4711, "producer_epoch": 3, "base_sequence": 20}
PURE_CODECS = [Codec.NONE, Codec.GZIP]
"""Codecs that kafka-python has without further packages."""

LIBRDKAFKA_NAMES = {
    Codec.NONE: "none",
    Codec.GZIP: "gzip",
    Codec.SNAPPY: "snappy",
    Codec.LZ4: "lz4",
    Codec.ZSTD: "zstd",
}


def fill(builder: Any) -> bytes:
    for number, record in enumerate(RECORDS):
        headers = list(record.headers)
        added = builder.append(number, record.timestamp, record.key, record.value, headers)
        assert added is not None
    return bytes(builder.build())


def aiokafka_batch(codec: Codec) -> bytes:
    return fill(
        aiokafka.DefaultRecordBatchBuilder(
            magic=2, compression_type=codec, is_transactional=1, batch_size=10**6, **PRODUCER
        )
    )


def kafka_python_batch(codec: Codec) -> bytes:
    return fill(
        kafka_python.DefaultRecordBatchBuilder(
            magic=2, compression_type=codec, is_transactional=True, batch_size=10**6, **PRODUCER
        )
    )


def our_batch(codec: Codec) -> bytes:
    return build_batch(RECORDS, codec=codec, is_transactional=True, **PRODUCER)


def assert_read_here(log: bytes, codec: Codec) -> None:
    """By the record reader, the column decoder and the structure check alike."""
    headers, end = scan(log, 0, len(log))
    assert end == len(log)
    # A client leaves a batch uncompressed when compression does not shrink it.
    assert codec in {header.codec for header in headers} <= {codec, Codec.NONE}
    found: list[Record] = []
    position = 0
    for header in headers:
        check_crc(log, header, position)
        section = record_section(log, header, position)
        assert check_records(section, header.record_count).is_dense
        found += read_records(log, header, position)
        position += header.size_bytes
        assert_appended_as_it_is(log[position - header.size_bytes : position])
    assert found == RECORDS
    rows = decode_batches(log).to_pylist()
    assert [(row["offset"], row["timestamp"], row["key"], row["value"]) for row in rows] == [
        (record.offset, record.timestamp, record.key, record.value) for record in RECORDS
    ]
    assert [tuple((h["key"], h["value"]) for h in row["headers"]) for row in rows] == [
        record.headers for record in RECORDS
    ]


def assert_appended_as_it_is(batch: bytes) -> None:
    """Validation neither rejects nor changes batches of other clients."""
    sent = bytearray(8) + batch[8:]
    header = read_header(sent)
    topic = TopicSettings()
    result = check_client_batch(sent, header, settings=topic, now_ms=RECORDS[-1].timestamp)
    assert result is not None
    before = bytearray(sent)
    assert corrected(sent, header, result, topic) == (before, header)


def assert_read_there(batch: Any) -> None:
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4711, 3, 20)
    assert batch.is_transactional
    assert [
        Record(
            key=record.key,
            value=record.value,
            timestamp=record.timestamp,
            headers=tuple(record.headers),
            offset=record.offset,
        )
        for record in batch
    ] == RECORDS


@pytest.mark.parametrize("codec", Codec)
def test_aiokafkas_batches_are_read(codec: Codec) -> None:
    assert_read_here(aiokafka_batch(codec), codec)


@pytest.mark.parametrize("codec", PURE_CODECS)
def test_kafka_pythons_batches_are_read(codec: Codec) -> None:
    assert_read_here(kafka_python_batch(codec), codec)


@pytest.mark.parametrize("codec", Codec)
def test_aiokafka_reads_our_batches(codec: Codec) -> None:
    assert_read_there(aiokafka.DefaultRecordBatch(our_batch(codec)))


@pytest.mark.parametrize("codec", PURE_CODECS)
def test_kafka_python_reads_our_batches(codec: Codec) -> None:
    assert_read_there(kafka_python.DefaultRecordBatch(our_batch(codec)))


@pytest.mark.parametrize("codec", Codec)
def test_aiokafka_reads_batches_made_of_columns(codec: Codec) -> None:
    table = decode_batches(our_batch(Codec.NONE))
    (batch,) = encode_columns(
        table, codec=codec, batch_bytes=10**6, is_transactional=True, **PRODUCER
    )
    assert_read_there(aiokafka.DefaultRecordBatch(bytes(batch)))


def test_all_builders_make_the_same_uncompressed_bytes() -> None:
    ours = our_batch(Codec.NONE)
    (columns,) = encode_columns(
        decode_batches(ours), batch_bytes=10**6, is_transactional=True, **PRODUCER
    )
    # The broker sets the leader epoch: Kafka's clients send -1, these two send 0.
    for theirs in (aiokafka_batch(Codec.NONE), kafka_python_batch(Codec.NONE)):
        assert theirs[:12] + b"\xff\xff\xff\xff" + theirs[16:] == ours
    assert columns == ours


class MockCluster:
    """librdkafka's mock cluster of one broker, with hand-made requests."""

    def __init__(self, codec: Codec) -> None:
        self.producer = Producer(
            {
                "test.mock.num.brokers": 1,
                "compression.codec": LIBRDKAFKA_NAMES[codec],
                "linger.ms": 1000,
                "batch.num.messages": len(RECORDS),
                "log_level": 0,
            }
        )
        # The mock cluster creates a topic when it is requested by name.
        (broker,) = self.producer.list_topics("raw", timeout=10).brokers.values()
        self.address = (broker.host, broker.port)

    def produce_raw(self, batch: bytes) -> None:
        """Produce v3, acks=all, one partition."""
        body = struct.pack(">hhii", -1, -1, 10_000, 1) + _string("raw")
        body += struct.pack(">iii", 1, 0, len(batch)) + batch
        reply = self._call(0, 3, body)
        (error,) = struct.unpack_from(">h", reply, 4 + 4 + 5 + 4 + 4)
        assert error == 0

    def fetch_all(self, topic: str, next_offset: int) -> bytes:
        """Fetch everything up to an offset. The mock broker returns one batch at a time."""
        log = b""
        offset = 0
        while offset < next_offset:
            part = self.fetch_raw(topic, offset)
            headers, _ = scan(part, 0, len(part))
            offset = headers[-1].next_offset
            log += part
        return log

    def fetch_raw(self, topic: str, offset: int) -> bytes:
        """Fetch v4 of partition 0."""
        body = struct.pack(">iiiibi", -1, 100, 1, 2**24, 0, 1) + _string(topic)
        body += struct.pack(">iiqi", 1, 0, offset, 2**24)
        reply = self._call(1, 4, body)
        position = 4 + 4 + 4 + 2 + len(topic) + 4
        (error,) = struct.unpack_from(">h", reply, position + 4)
        assert error == 0
        position += 4 + 2 + 8 + 8
        aborted, size_bytes = struct.unpack_from(">ii", reply, position)
        assert aborted <= 0
        return reply[position + 8 : position + 8 + size_bytes]

    def _call(self, api_key: int, version: int, body: bytes) -> bytes:
        request = struct.pack(">hhi", api_key, version, 1) + _string("test") + body
        with socket.create_connection(self.address, timeout=10) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size_bytes,) = struct.unpack(">i", _read(connection, 4))
            return _read(connection, size_bytes)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _read(connection: socket.socket, size_bytes: int) -> bytes:
    content = b""
    while len(content) < size_bytes:
        part = connection.recv(size_bytes - len(content))
        assert part, "the mock broker hung up"
        content += part
    return content


def _as_record(message: Message) -> Record:
    headers: Any = message.headers() or []
    return Record(
        key=message.key(),
        value=message.value(),
        timestamp=message.timestamp()[1],
        headers=tuple(headers),
        offset=message.offset(),
    )


@pytest.fixture(params=list(Codec), ids=[codec.name for codec in Codec])
def codec(request: pytest.FixtureRequest) -> Codec:
    return Codec(request.param)


@pytest.fixture
def cluster(codec: Codec) -> Iterator[MockCluster]:
    mock = MockCluster(codec)
    yield mock
    mock.producer.flush(10)


def test_librdkafkas_batches_are_read(codec: Codec, cluster: MockCluster) -> None:
    for record in RECORDS:
        cluster.producer.produce(
            "made",
            key=record.key,
            value=record.value,
            timestamp=record.timestamp,
            headers=list(record.headers),
            partition=0,
        )
    assert cluster.producer.flush(10) == 0
    log = cluster.fetch_all("made", len(RECORDS))
    assert_read_here(log, codec)
    first = read_header(log)
    if first.codec is Codec.NONE:
        records = list(read_records(log, first))
        rebuilt = build_batch(records, leader_epoch=first.leader_epoch)
        assert log[: first.size_bytes] == rebuilt


def test_librdkafka_reads_our_batches(codec: Codec, cluster: MockCluster) -> None:
    cluster.produce_raw(build_batch(RECORDS, codec=codec))
    host, port = cluster.address
    consumer = Consumer(
        {
            "bootstrap.servers": f"{host}:{port}",
            "group.id": "judges",
            "check.crcs": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition("raw", 0, 0)])
        messages = consumer.consume(len(RECORDS), timeout=20)
        assert [message.error() for message in messages if message.error()] == []
        assert [_as_record(message) for message in messages] == RECORDS
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", Codec)
def test_other_clients_can_read_whatever_validation_accepts(codec: Codec) -> None:
    """Records are damaged before or after compression, with a matching CRC."""
    rng = random.Random(codec)
    records = RECORDS[:20]
    plain = build_batch(records)[HEADER_BYTES:]
    header = read_header(build_batch(records, codec=codec))
    taken = 0
    for round_number in range(400):
        inner, is_packed = bytearray(plain), round_number % 2 == 0
        payload = inner if is_packed else bytearray(compress(codec, plain))
        for _ in range(rng.randrange(1, 3)):
            payload[rng.randrange(len(payload))] = rng.choice((0, 1, 2, rng.randrange(256)))
        batch = bytearray(
            seal_batch(header, compress(codec, bytes(payload)) if is_packed else payload)
        )
        topic = TopicSettings(message_timestamp_after_max_ms=2**62)
        try:
            sent = read_header(batch)
            result = check_client_batch(batch, sent, settings=topic, now_ms=RECORDS[0].timestamp)
        except BatchError:
            continue
        content, after = corrected(batch, sent, result, topic)
        keys = [key for each in read_records(content, after) for key, _ in each.headers]
        if not all(map(str.isprintable, keys)):
            # Brokers do not check that header keys are text, but these clients do.
            continue
        judges = [aiokafka] if codec not in PURE_CODECS else [aiokafka, kafka_python]
        for judge in judges:
            read = judge.DefaultRecordBatch(bytes(content))
            assert read.validate_crc()
            assert [each.offset for each in read] == list(range(len(records)))
        taken += 1
    assert taken
