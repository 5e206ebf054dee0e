"""Batches of a log as a producer sends them: which are copied undecoded, and which are not."""

import pytest

from headwater.common.exceptions import CorruptBatch
from headwater.mirror.batch_copy import sendable
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import HEADER_BYTES, Codec, TimestampType, read_header
from headwater.records.checksum import write_crc
from headwater.records.record import Record
from headwater.records.record_reader import read_records

HEADERS = (("no \udcff text", b"1"), ("empty", None))


def records(*offsets: int, headers: tuple[tuple[str, bytes | None], ...] = ()) -> list[Record]:
    return [
        Record(key=b"k", value=b"v%d" % each, timestamp=100 + each, offset=each, headers=headers)
        for each in offsets
    ]


def opened(batch: bytearray | None) -> list[tuple[bytes | None, int, int | None]]:
    assert batch is not None
    write_crc(batch, 0, len(batch))
    header = read_header(batch)
    assert (header.base_offset, header.producer_id, header.base_sequence) == (0, -1, -1)
    assert header.record_count == header.last_offset_delta + 1
    assert not header.is_transactional
    return [(each.value, each.timestamp, each.offset) for each in read_records(batch, header)]


@pytest.mark.parametrize("codec", list(Codec))
def test_dense_batch_is_copied_undecoded(codec: Codec) -> None:
    batch = build_batch(
        records(7, 8, 9),
        base_offset=7,
        leader_epoch=3,
        codec=codec,
        producer_id=5,
        producer_epoch=1,
        base_sequence=40,
        is_transactional=True,
    )
    sent = sendable(batch, read_header(batch))
    assert sent is not None
    assert sent[HEADER_BYTES:] == batch[HEADER_BYTES:]
    assert read_header(sent).codec is codec
    assert opened(sent) == [(b"v7", 107, 0), (b"v8", 108, 1), (b"v9", 109, 2)]


@pytest.mark.parametrize("headers", [(), HEADERS])
@pytest.mark.parametrize("codec", list(Codec))
def test_gaps_of_compaction_are_removed(
    codec: Codec, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    batch = build_batch(records(8, 11, headers=headers), base_offset=7, codec=codec, last_offset=20)
    sent = sendable(batch, read_header(batch))
    assert opened(sent) == [(b"v8", 108, 0), (b"v11", 111, 1)]
    assert sent is not None
    assert read_header(sent).codec is codec
    assert [each.headers for each in read_records(sent, read_header(sent))] == [headers] * 2


@pytest.mark.parametrize("headers", [(), HEADERS])
def test_records_before_the_first_offset_are_omitted(
    headers: tuple[tuple[str, bytes | None], ...],
) -> None:
    batch = build_batch(records(7, 8, 9, headers=headers), base_offset=7)
    assert opened(sendable(batch, read_header(batch), 0, 9)) == [(b"v9", 109, 0)]


@pytest.mark.parametrize("headers", [(), HEADERS])
def test_log_append_time_becomes_the_timestamp_of_each_record(
    headers: tuple[tuple[str, bytes | None], ...],
) -> None:
    """Otherwise the target broker would set its own time (PV-4)."""
    batch = build_batch(
        records(7, 8, headers=headers), base_offset=7, timestamp_type=TimestampType.LOG_APPEND_TIME
    )
    sent = sendable(batch, read_header(batch))
    assert sent is not None
    assert read_header(sent).timestamp_type is TimestampType.CREATE_TIME
    assert [time for _, time, _ in opened(sent)] == [108, 108]


def test_batch_with_a_delete_horizon_keeps_its_timestamps() -> None:
    batch = build_batch(records(7, 8), base_offset=7, delete_horizon_ms=5)
    assert [time for _, time, _ in opened(sendable(batch, read_header(batch)))] == [107, 108]


def test_batch_without_records_is_not_sent() -> None:
    batch = build_batch([], base_offset=7, last_offset=9)
    assert sendable(batch, read_header(batch)) is None


def test_corrupt_batch_is_detected_and_not_sent_with_a_new_crc() -> None:
    batch = bytearray(build_batch(records(7)))
    batch[-3] ^= 1
    with pytest.raises(CorruptBatch):
        sendable(bytes(batch), read_header(batch))
