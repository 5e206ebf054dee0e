"""Building, reading, stamping and control batches, compared with an independent implementation."""

import pytest

from headwater.common.exceptions import CorruptBatch
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import Codec, TimestampType, read_header
from headwater.records.batch_stamping import assign_offset, stamp_append_time, stamp_create_time
from headwater.records.checksum import check_crc
from headwater.records.control_batches import (
    ControlRecord,
    ControlType,
    build_marker,
    parse_control,
    read_control,
)
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from tests.unit.records.test_batch_header import COMMIT_MARKER, ONE_RECORD

RECORDS = (
    Record(key=b"a", value=b"1", timestamp=1000, headers=(("trace", b"x"), ("none", None))),
    Record(key=None, value=b"2", timestamp=990),
    Record(key=b"b", value=None, timestamp=1010),
    Record(key=b"", value=b"", timestamp=1005, headers=(("", b""),)),
)


def numbered(records: tuple[Record, ...], first_offset: int = 0) -> list[Record]:
    return [
        Record(
            key=record.key,
            value=record.value,
            timestamp=record.timestamp,
            headers=record.headers,
            offset=first_offset + index,
        )
        for index, record in enumerate(records)
    ]


def test_one_record_gives_the_documented_bytes() -> None:
    assert build_batch([Record(key=b"k", value=b"v", timestamp=1000)]) == ONE_RECORD


def test_commit_marker_gives_the_documented_bytes() -> None:
    marker = build_marker(
        ControlType.COMMIT,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=2,
        timestamp=1000,
        base_offset=5,
        leader_epoch=3,
    )
    assert marker == COMMIT_MARKER


@pytest.mark.parametrize("codec", Codec)
def test_records_survive_every_codec(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec, base_offset=40)
    header = read_header(batch)
    check_crc(batch, header)
    assert header.codec is codec
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1010)
    assert list(read_records(batch, header)) == numbered(RECORDS, 40)


def test_a_batch_is_read_at_its_position() -> None:
    second = build_batch(RECORDS, base_offset=1, codec=Codec.ZSTD)
    buffer = ONE_RECORD + second
    header = read_header(buffer, len(ONE_RECORD))
    check_crc(buffer, header, len(ONE_RECORD))
    assert list(read_records(buffer, header, len(ONE_RECORD))) == numbered(RECORDS, 1)


def test_log_append_time_batch_has_one_timestamp_for_all_records() -> None:
    """PV-4."""
    batch = bytearray(build_batch(RECORDS))
    stamp_append_time(batch, read_header(batch), 0, 5000)
    header = read_header(batch)
    check_crc(batch, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in read_records(batch, header)} == {5000}
    stamp_create_time(batch, header, 0)
    check_crc(batch, read_header(batch))
    times = [record.timestamp for record in read_records(batch, read_header(batch))]
    assert times == [1000, 990, 1010, 1005]


def test_assigned_offset_leaves_the_crc_valid() -> None:
    buffer = bytearray(b"before" + ONE_RECORD)
    assign_offset(buffer, 6, 77, 9)
    header = read_header(buffer, 6)
    check_crc(buffer, header, 6)
    assert (header.base_offset, header.leader_epoch) == (77, 9)
    assert buffer[:6] == b"before"


def test_one_flipped_bit_breaks_the_crc() -> None:
    for position in range(21, len(ONE_RECORD)):
        damaged = bytearray(ONE_RECORD)
        damaged[position] ^= 1
        with pytest.raises(CorruptBatch):
            check_crc(damaged, read_header(ONE_RECORD))


def test_compacted_record_leaves_an_offset_gap() -> None:
    records = [Record(key=b"a", offset=10), Record(key=b"b", offset=14)]
    batch = build_batch(records, base_offset=8, last_offset=20)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (8, 20, 2)
    assert [record.offset for record in read_records(batch, header)] == [10, 14]


def test_header_keys_with_invalid_utf8_survive() -> None:
    records = (Record(key=b"k", headers=((b"\xff\xfe".decode("utf-8", "surrogateescape"), b"v"),)),)
    batch = build_batch(records)
    assert list(read_records(batch, read_header(batch))) == numbered(records)


def test_marker_has_the_result_of_the_transaction() -> None:
    """TX-6."""
    marker = read_control(COMMIT_MARKER, read_header(COMMIT_MARKER))
    assert marker == ControlRecord(ControlType.COMMIT, 2)
    assert marker.ends_transaction
    assert not marker.is_abort


def test_an_unknown_control_type_is_passed_on_as_its_number() -> None:
    assert parse_control(b"\x00\x00\x00\x63", None) == ControlRecord(99, None)
    assert not ControlRecord(99, None).ends_transaction
    assert parse_control(b"\x00\x00\x00\x02", b"") == ControlRecord(ControlType.LEADER_CHANGE, None)


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"\x00", b""), (b"\0\0\0\1", None), (b"\0\0\0\0", b"\0")]
)
def test_truncated_control_record_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        parse_control(key, value)


def test_an_emptied_control_batch_has_no_control_record() -> None:
    batch = build_batch([], is_control=True, last_offset=0)
    assert read_control(batch, read_header(batch)) is None
