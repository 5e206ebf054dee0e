"""Produce: accepted and rejected batches, error messages, and the resulting log."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from headwater.protocol.messages.metadata import MetadataRequest
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import HEADER_BYTES, Codec, TimestampType, read_header
from headwater.records.batch_sealing import seal_batch
from headwater.records.checksum import write_crc
from headwater.records.compression import compress
from headwater.records.control_batches import ControlType, build_marker
from headwater.records.record import Record
from headwater.records.varints import write_varint
from tests.peers.lab import Lab

BY_NAME = 12
"""The last version of Produce and of Fetch in which a topic goes by its name."""


def produce(
    topic: str,
    records: memoryview | bytes | None,
    *,
    acks: int = -1,
    partition: int = 0,
    transactional_id: str | None = None,
    topic_id: TopicId = NO_TOPIC_ID,
) -> ProduceRequest:
    content = None if records is None else memoryview(records)
    data = PartitionProduceData(index=partition, records=content)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=(TopicProduceData(name=topic, topic_id=topic_id, partition_data=(data,)),),
    )


def fetch_all(topic: str, *, offset: int = 0, partition: int = 0) -> FetchRequest:
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_bytes=1 << 22, min_bytes=0, topics=(FetchTopic(topic=topic, partitions=(asked,)),)
    )


def acknowledgements(lab: Lab) -> None:
    topic = lab.topic()
    for acks in (1, -1, 2, -2):
        lab.show(f"acks {acks}", produce(topic, lab.batch("a", "b"), acks=acks), BY_NAME)
    lab.client.send(produce(topic, lab.batch("c"), acks=0), BY_NAME)
    lab.client.send(produce(topic, lab.batch("d"), acks=0), BY_NAME)
    # With acks=0 there is no answer, so the next frame is that of the next request.
    lab.show("the answer after acks 0", produce(topic, lab.batch("e"), acks=1), BY_NAME)
    lab.show("the log", fetch_all(topic), BY_NAME)


def silent_errors_close_the_connection(lab: Lab) -> None:
    """With acks=0 there is no response for an error, so the broker closes the connection."""
    lab.client.send(produce(lab.named("nowhere"), lab.batch("a"), acks=0), BY_NAME)
    lab.show("after an error with acks 0", MetadataRequest(topics=()))


def unknown_topics_and_partitions(lab: Lab) -> None:
    topic = lab.topic()
    lab.show("topic", produce(lab.named("nowhere"), lab.batch("a")), BY_NAME)
    lab.show("partition", produce(topic, lab.batch("a"), partition=7), BY_NAME)
    lab.show("negative partition", produce(topic, lab.batch("a"), partition=-1), BY_NAME)
    strange = TopicId(bytes(range(16)))
    lab.show("topic id", produce("", lab.batch("a"), topic_id=strange), 13)
    lab.show("zero topic id", produce("", lab.batch("a")), 13)
    lab.show("bad name", produce("no such/name", lab.batch("a")), BY_NAME)


def every_version_of_the_answer(lab: Lab) -> None:
    topic = lab.topic()
    topic_id = lab.topic_id(topic)
    for version in range(3, 14):
        request = produce(topic, lab.batch("a"), topic_id=topic_id)
        lab.show(f"version {version}", request, version)
        bad = produce(topic, lab.batch("a"), topic_id=topic_id, partition=1)
        lab.show(f"an error in version {version}", bad, version)


def damaged_batches(lab: Lab) -> None:
    topic = lab.topic()
    good = bytes(lab.batch("a", "b", "c"))
    lab.show("bad crc", produce(topic, _with(good, 60, b"\x09", seal=False)), BY_NAME)
    lab.show("cut by a byte", produce(topic, good[:-1]), BY_NAME)
    lab.show("only a header's half", produce(topic, good[:30]), BY_NAME)
    lab.show("length too small", produce(topic, _with(good, 8, struct.pack(">i", 10))), BY_NAME)
    lab.show("negative length", produce(topic, _with(good, 8, struct.pack(">i", -1))), BY_NAME)
    for magic in (0, 1, 3):
        lab.show(f"magic {magic}", produce(topic, _with(good, 16, bytes([magic]))), BY_NAME)
    lab.show("unknown codec", produce(topic, _with(good, 22, b"\x07")), BY_NAME)
    lab.show("count too large", produce(topic, _with(good, 57, struct.pack(">i", 4))), BY_NAME)
    lab.show("count too small", produce(topic, _with(good, 57, struct.pack(">i", 2))), BY_NAME)
    lab.show("no count", produce(topic, _with(good, 57, struct.pack(">i", 0))), BY_NAME)
    lab.show("delta too large", produce(topic, _with(good, 23, struct.pack(">i", 5))), BY_NAME)
    lab.show("negative delta", produce(topic, _with(good, 23, struct.pack(">i", -1))), BY_NAME)
    lab.show("a byte too many", produce(lab.topic("long"), good + b"\0"), BY_NAME)
    poisoned = lab.topic("poisoned")
    lab.show("not really gzip", produce(poisoned, _with(good, 22, b"\x01")), BY_NAME)
    lab.show("control batch", produce(topic, _marker(lab)), BY_NAME)
    lab.show("delete horizon flag", produce(topic, _with(good, 22, b"\x40")), BY_NAME)
    lab.show("unused flag", produce(topic, _with(good, 21, b"\x01")), BY_NAME)
    lab.show("the log", fetch_all(topic), BY_NAME)


def invalid_records(lab: Lab) -> None:
    """Batches with a valid header and CRC but invalid records."""
    good = bytes(build_batch(lab.records("a", "b", "c")))
    first_bytes = good[HEADER_BYTES] // 2 + 1
    damages: dict[str, Callable[[bytes], bytes]] = {
        "a record cut": lambda plain: plain[:-1],
        "a byte left over": lambda plain: plain + b"\0",
        "a record left over": lambda plain: plain + plain[:first_bytes],
        "a record missing": lambda plain: plain[first_bytes:],
        "a length beyond the batch": lambda plain: write_varint(1_000_000) + plain[1:],
        "a key beyond the batch": lambda plain: plain[:4] + write_varint(1_000_000) + plain[5:],
        "a negative header count": lambda plain: (
            plain[: first_bytes - 1] + b"\1" + plain[first_bytes:]
        ),
        "a header without a key": lambda plain: (
            _lengthened(plain[:first_bytes], b"\x02\x01\x01") + plain[first_bytes:]
        ),
        "no records": lambda plain: plain[:0],
    }
    for codec in Codec:
        topic = lab.topic(codec.name.lower())
        for label, damage in damages.items():
            batch = _repacked(good, codec, damage(good[HEADER_BYTES:]))
            lab.show(f"{codec.name}: {label}", produce(topic, batch), BY_NAME)
        # Not the log: consumers cannot read the ones that Kafka accepted.
        lab.show(f"{codec.name}: a good one", produce(topic, good), BY_NAME)


def invalid_record_lengths(lab: Lab) -> None:
    """A record whose length does not match its contents."""
    good = bytes(build_batch(lab.records("a", "b", "c")))
    plain = good[HEADER_BYTES:]
    for codec in Codec:
        topic = lab.topic(codec.name.lower())
        for label, shift in (("too small", -2), ("too large", 2)):
            batch = _repacked(good, codec, bytes([plain[0] + shift]) + plain[1:])
            lab.show(f"{codec.name}: {label}", produce(topic, batch), BY_NAME)


def invalid_streams(lab: Lab) -> None:
    """Compressed records that cannot be decompressed."""
    for codec in Codec:
        if codec is Codec.NONE:
            continue
        topic = lab.topic(codec.name.lower())
        good = build_batch(lab.records(*(f"value {number}" for number in range(50))), codec=codec)
        packed = good[HEADER_BYTES:]
        header = read_header(good)
        half = seal_batch(header, packed[: len(packed) // 2])
        lab.show(f"{codec.name}: half a stream", produce(topic, half), BY_NAME)
        zeros = seal_batch(header, packed[:30] + bytes(10) + packed[40:])
        lab.show(f"{codec.name}: zeros within", produce(topic, zeros), BY_NAME)
        lab.show(f"{codec.name}: nothing", produce(topic, seal_batch(header, b"")), BY_NAME)
        lab.show(f"{codec.name}: a good one", produce(topic, good), BY_NAME)


def counts_that_lie(lab: Lab) -> None:
    for codec in Codec:
        topic = lab.topic(codec.name.lower())
        good = build_batch(lab.records("a", "b"), codec=codec)
        header = read_header(good)
        for count in (1, 3, 1_000, 2**31 - 1):
            claimed = header._replace(record_count=count, last_offset_delta=count - 1)
            batch = seal_batch(claimed, good[HEADER_BYTES:])
            lab.show(f"{codec.name}: {count}", produce(topic, batch), BY_NAME)
        lab.show(f"{codec.name}: the log", fetch_all(topic), BY_NAME)


def timestamps_within(lab: Lab) -> None:
    """Timestamps that the header does not contain."""
    hour_ms = 3_600_000
    now_ms = lab.start_ms + hour_ms
    for codec in Codec:
        topic = lab.topic(
            codec.name.lower(),
            message_timestamp_before_max_ms="600000",
            message_timestamp_after_max_ms="600000",
        )
        old = build_batch(
            [
                Record(key=b"k", value=b"v", timestamp=each)
                for each in (now_ms, now_ms - hour_ms, now_ms)
            ],
            codec=codec,
        )
        lab.show(f"{codec.name}: an old one amid new ones", produce(topic, old), BY_NAME)
        new = build_batch(lab.records("a", "b", at_ms=hour_ms), codec=codec)
        claimed = read_header(new)._replace(max_timestamp=now_ms + 50)
        batch = seal_batch(claimed, new[HEADER_BYTES:])
        lab.show(f"{codec.name}: a wrong largest one", produce(topic, batch), BY_NAME)
        lab.show(f"{codec.name}: the log", fetch_all(topic), BY_NAME)


def keys_and_timestamps(lab: Lab) -> None:
    """Which of two errors is reported."""
    hour_ms = 3_600_000
    topic = lab.topic(
        cleanup_policy="compact",
        message_timestamp_before_max_ms="600000",
        message_timestamp_after_max_ms="600000",
    )
    now_ms = lab.start_ms + hour_ms
    old = Record(key=b"k", value=b"v", timestamp=lab.start_ms)
    keyless = Record(key=None, value=b"v", timestamp=now_ms)
    both = Record(key=None, value=b"v", timestamp=lab.start_ms)
    for codec in (Codec.NONE, Codec.LZ4):
        for label, records in (
            ("a late one and a keyless one", [old, keyless]),
            ("a keyless one and a late one", [keyless, old]),
            ("one that is both", [both]),
        ):
            batch = build_batch(records, codec=codec)
            lab.show(f"{codec.name}: {label}", produce(topic, batch), BY_NAME)


def several_batches_or_none(lab: Lab) -> None:
    topic = lab.topic()
    one = bytes(lab.batch("a"))
    lab.show("two batches", produce(topic, one + one), BY_NAME)
    lab.show("empty records", produce(topic, b""), BY_NAME)
    lab.show("no topics", ProduceRequest(acks=-1, timeout_ms=1000), BY_NAME)
    lab.show("a batch without records", produce(topic, build_batch([], last_offset=0)), BY_NAME)
    twice = produce(topic, lab.batch("b"))
    doubled = replace(twice, topic_data=twice.topic_data + twice.topic_data)
    lab.show("the same partition twice", doubled, BY_NAME)
    lab.show("the log", fetch_all(topic), BY_NAME)


def partial_failure(lab: Lab) -> None:
    """One failed partition does not affect the others."""
    topic = lab.topic(partitions=2)
    data = tuple(
        PartitionProduceData(index=number, records=lab.batch(f"to {number}"))
        for number in (0, 5, 1)
    )
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=(
            TopicProduceData(name=lab.named("nowhere"), partition_data=data[:1]),
            TopicProduceData(name=topic, partition_data=data),
        ),
    )
    lab.show("three partitions, one topic unknown", request, BY_NAME, unordered=True)


def too_large(lab: Lab) -> None:
    topic = lab.topic(max_message_bytes="200", segment_bytes="1048576")
    lab.show("just right", produce(topic, lab.batch("x" * 100)), BY_NAME)
    lab.show("over max.message.bytes", produce(topic, lab.batch("x" * 400)), BY_NAME)
    wide = lab.topic("wide", max_message_bytes="3000000", segment_bytes="1048576")
    lab.show("over segment.bytes", produce(wide, lab.batch("x" * 1_100_000)), BY_NAME)
    packed = build_batch(lab.records("x" * 5000), codec=Codec.GZIP)
    lab.show("large but compressed", produce(topic, packed), BY_NAME)


def timestamps(lab: Lab) -> None:
    topic = lab.topic(
        message_timestamp_before_max_ms="600000", message_timestamp_after_max_ms="600000"
    )
    hour_ms = 3_600_000
    # The scenario's start is an hour ago, so one hour later is about now.
    lab.show("now", produce(topic, lab.batch("a", at_ms=hour_ms)), BY_NAME)
    lab.show("an hour ago", produce(topic, lab.batch("a", at_ms=0)), BY_NAME)
    lab.show("in an hour", produce(topic, lab.batch("a", at_ms=2 * hour_ms)), BY_NAME)
    none = build_batch([Record(key=b"k", value=b"v", timestamp=-1)])
    lab.show("no timestamp", produce(topic, none), BY_NAME)
    free = lab.topic("free")
    lab.show("no timestamp, no limit", produce(free, none), BY_NAME)
    negative = build_batch([Record(key=b"k", value=b"v", timestamp=-5)])
    lab.show("negative timestamp", produce(free, negative), BY_NAME)
    later = build_batch(
        [
            Record(key=b"k", value=b"v", timestamp=lab.start_ms + hour_ms),
            Record(key=b"k", value=b"v", timestamp=lab.start_ms),
        ]
    )
    lab.show("one of two too old", produce(topic, later), BY_NAME)
    far = lab.batch("a", at_ms=30 * hour_ms)
    lab.show("a day ahead with Kafka's default", produce(free, far), BY_NAME)
    stamped = build_batch(lab.records("s"), timestamp_type=TimestampType.LOG_APPEND_TIME)
    lab.show("append time claimed by a client", produce(free, stamped), BY_NAME)
    bytes_of = bytearray(lab.batch("a", "b"))
    struct.pack_into(">q", bytes_of, 35, lab.start_ms + 50)
    write_crc(bytes_of, 0, len(bytes_of))
    lab.show("a wrong largest timestamp", produce(free, bytes(bytes_of)), BY_NAME)
    lab.show("the free log", fetch_all(free), BY_NAME)


def append_time(lab: Lab) -> None:
    topic = lab.topic(message_timestamp_type="LogAppendTime")
    lab.show("create time", produce(topic, lab.batch("a", "b")), BY_NAME)
    packed = build_batch(lab.records("c", "d"), codec=Codec.LZ4)
    lab.show("compressed", produce(topic, packed), BY_NAME)
    old = build_batch([Record(key=b"k", value=b"v", timestamp=-1)])
    lab.show("none", produce(topic, old), BY_NAME)
    lab.show("the log", fetch_all(topic), BY_NAME)


def compacted_topics_want_keys(lab: Lab) -> None:
    topic = lab.topic(cleanup_policy="compact")
    lab.show("a key", produce(topic, lab.batch("a")), BY_NAME)
    lab.show("no key", produce(topic, lab.batch("a", key=None)), BY_NAME)
    mixed = [*lab.records("a"), *lab.records("b", key=None), *lab.records("c", "d", key=None)]
    lab.show("keys in some", produce(topic, build_batch(mixed)), BY_NAME)
    lab.show("no key, old version", produce(topic, lab.batch("a", key=None)), 7)
    packed = build_batch(mixed, codec=Codec.ZSTD)
    lab.show("keys in some, compressed", produce(topic, packed), BY_NAME)
    lab.show("an empty key", produce(topic, lab.batch("a", key="")), BY_NAME)


def sequences(lab: Lab) -> None:
    """IDP-2 to IDP-7."""
    topic = lab.topic()
    producer_id = lab.producer_id()

    def send(label: str, first: int, values: Sequence[str] = "ab", epoch: int = 0) -> None:
        batch = build_batch(
            lab.records(*values),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=first,
        )
        lab.show(label, produce(topic, batch), BY_NAME)

    send("first", 0)
    send("second", 2)
    send("second again", 2)
    send("first again", 0)
    send("a gap", 7)
    send("half of a duplicate", 2, values="a")
    for number in range(4, 14, 2):
        send(f"sequence {number}", number)
    send("a duplicate older than five", 0)
    send("the oldest of five", 4)
    send("negative sequence", -1)
    send("new epoch not at 0", 5, epoch=1)
    send("new epoch", 0, epoch=1)
    send("old epoch", 14, epoch=0)
    send("negative epoch", 2, epoch=-1)
    lab.show("the log", fetch_all(topic), BY_NAME)


def sequences_of_unknown_producers(lab: Lab) -> None:
    """IDP-6, and the wrap of IDP-7."""
    topic = lab.topic()
    for label, producer_id, first in (
        ("an id that was never allocated", 987_654_321, 0),
        ("not at 0", 987_654_322, 41),
        ("near the end of numbers", 987_654_323, 2**31 - 2),
        ("after the end of numbers", 987_654_323, 1),
    ):
        values = ("a", "b", "c") if first > 41 else ("a",)
        batch = build_batch(
            lab.records(*values), producer_id=producer_id, producer_epoch=0, base_sequence=first
        )
        lab.show(label, produce(topic, batch), BY_NAME)


def transactions_without_a_coordinator(lab: Lab) -> None:
    """A transactional batch of a producer that has no transaction."""
    topic = lab.topic()
    batch = build_batch(
        lab.records("a"),
        producer_id=lab.producer_id(),
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    lab.show("no transactional id", produce(topic, batch), BY_NAME)
    without_producer = build_batch(lab.records("a"), is_transactional=True)
    lab.show("no producer id", produce(topic, without_producer), BY_NAME)


def codecs_round_trip(lab: Lab) -> None:
    topic = lab.topic()
    for codec in Codec:
        batch = build_batch(lab.records("a" * 30, "b" * 30, "c" * 30), codec=codec)
        lab.show(f"produce {codec.name}", produce(topic, batch), BY_NAME)
    lab.show("the log", fetch_all(topic), BY_NAME)
    lab.show("zstd in an old produce", produce(topic, batch), 6)
    lab.show("zstd in an old fetch", fetch_all(topic, offset=12), 9)


def recompression(lab: Lab) -> None:
    """A topic's own codec; sizes are not compared, since encoders differ."""
    for wanted in ("gzip", "snappy", "lz4", "zstd", "uncompressed"):
        topic = lab.topic(wanted, compression_type=wanted)
        lab.show(f"{wanted}: plain", produce(topic, lab.batch("a" * 30, "b" * 30)), BY_NAME)
        packed = build_batch(lab.records("c" * 30, "d" * 30), codec=Codec.GZIP)
        lab.show(f"{wanted}: gzip", produce(topic, packed), BY_NAME)
        lab.show(f"{wanted}: the log", fetch_all(topic), BY_NAME)


def odd_offsets_inside_a_batch(lab: Lab) -> None:
    topic = lab.topic()
    gap = [replace(each, offset=2 * n) for n, each in enumerate(lab.records("a", "b"))]
    lab.show("a gap between offsets", produce(topic, build_batch(gap)), BY_NAME)
    based = build_batch(lab.records("a", "b"), base_offset=100)
    lab.show("a base offset of the client's", produce(topic, based), BY_NAME)
    epoch = build_batch(lab.records("a"), leader_epoch=9)
    lab.show("a leader epoch of the client's", produce(topic, epoch), BY_NAME)
    headers = Record(
        key=None, value=None, timestamp=lab.start_ms, headers=(("h", None), ("h", b"x"), ("", b""))
    )
    lab.show("headers and nulls", produce(topic, build_batch([headers])), BY_NAME)
    lab.show("the log", fetch_all(topic), BY_NAME)


def _with(batch: bytes, position: int, content: bytes, *, seal: bool = True) -> bytes:
    """A batch with other bytes at a position and, by default, a valid CRC."""
    changed = bytearray(batch)
    changed[position : position + len(content)] = content
    if seal:
        write_crc(changed, 0, len(changed))
    return bytes(changed)


def _repacked(batch: bytes, codec: Codec, plain: bytes) -> bytes:
    """The batch with other records, with a codec."""
    return seal_batch(read_header(batch)._replace(attributes=codec), compress(codec, plain))


def _lengthened(record: bytes, tail: bytes) -> bytes:
    """A record of less than 64 bytes whose header count is replaced by a tail."""
    body = record[1:-1] + tail
    return write_varint(len(body)) + body


def _marker(lab: Lab) -> bytes:
    return build_marker(
        ControlType.COMMIT,
        producer_id=lab.producer_id(),
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=lab.start_ms,
    )
