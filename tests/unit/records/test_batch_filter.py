"""Batches filtered by compaction."""

import pytest

from headwater.records.batch_building import build_batch
from headwater.records.batch_filter import filter_batch
from headwater.records.batch_header import BatchHeader, Codec, TimestampType, read_header
from headwater.records.checksum import check_crc
from headwater.records.record import Record
from headwater.records.record_reader import read_records

RECORDS = [
    Record(key=b"a", value=b"1", timestamp=1000, offset=50),
    Record(key=b"b", value=b"2", timestamp=1020, offset=51),
    Record(key=b"c", value=None, timestamp=1010, offset=52, headers=(("h", b"v"),)),
]


def batch_of(codec: Codec = Codec.NONE, horizon_ms: int | None = None) -> bytes:
    return build_batch(
        RECORDS,
        codec=codec,
        base_offset=49,
        last_offset=60,
        leader_epoch=4,
        is_transactional=True,
        delete_horizon_ms=horizon_ms,
        producer_id=7,
        producer_epoch=2,
        base_sequence=30,
    )


def filtered(
    batch: bytes, keep: bytes, horizon_ms: int | None = None
) -> tuple[BatchHeader, list[Record]]:
    buffer = b"front" + batch
    result = filter_batch(buffer, read_header(batch), 5, keep, delete_horizon_ms=horizon_ms)
    header = read_header(result)
    check_crc(result, header)
    assert header.size_bytes == len(result)
    return header, list(read_records(result, header))


def unchanging(header: BatchHeader) -> tuple[int, ...]:
    return (
        header.base_offset,
        header.last_offset_delta,
        header.leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )


@pytest.mark.parametrize("codec", Codec)
def test_kept_records_keep_offset_timestamp_and_content(codec: Codec) -> None:
    batch = batch_of(codec)
    header, records = filtered(batch, b"\0\1\1")
    assert records == RECORDS[1:]
    assert header.codec is codec
    assert header.is_transactional
    assert unchanging(header) == unchanging(read_header(batch))
    assert (header.record_count, header.base_timestamp, header.max_timestamp) == (2, 1020, 1020)


def test_max_timestamp_is_that_of_the_kept_records() -> None:
    header, _ = filtered(batch_of(), b"\1\0\1")
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1010)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_new_delete_horizon_replaces_the_base_timestamp_and_records_keep_theirs(
    codec: Codec,
) -> None:
    """CP-4."""
    header, records = filtered(batch_of(codec), b"\1\0\1", horizon_ms=99_000)
    assert header.delete_horizon_ms == 99_000
    assert header.max_timestamp == 1010
    assert records == [RECORDS[0], RECORDS[2]]


def test_old_delete_horizon_survives_later_cleaning() -> None:
    """CP-4: the horizon is set once, at the first cleaning that keeps a tombstone."""
    header, records = filtered(batch_of(horizon_ms=99_000), b"\0\0\1")
    assert header.delete_horizon_ms == 99_000
    assert header.max_timestamp == 1010
    assert records == RECORDS[2:]


def test_delete_horizon_is_set_even_if_all_records_stay() -> None:
    header, records = filtered(batch_of(), b"\1\1\1", horizon_ms=99_000)
    assert header.delete_horizon_ms == 99_000
    assert records == RECORDS


def test_batch_that_keeps_all_records_is_unchanged() -> None:
    batch = batch_of(Codec.GZIP)
    assert filter_batch(batch, read_header(batch), 0, b"\1\1\1") == batch


@pytest.mark.parametrize("horizon_ms", [None, 99_000])
def test_emptied_batch_keeps_its_producer_state(horizon_ms: int | None) -> None:
    """CP-6: codec and horizon are cleared; offsets, sequence and max timestamp stay."""
    batch = batch_of(Codec.ZSTD, horizon_ms)
    header, records = filtered(batch, b"\0\0\0")
    assert records == []
    assert header.size_bytes == 61
    assert unchanging(header) == unchanging(read_header(batch))
    assert header.codec is Codec.NONE
    assert header.delete_horizon_ms is None
    assert header.is_transactional
    assert (header.base_timestamp, header.max_timestamp) == (-1, 1020)
    assert header.last_sequence == 41


def test_log_append_time_survives_filtering() -> None:
    batch = build_batch(RECORDS, base_offset=50, timestamp_type=TimestampType.LOG_APPEND_TIME)
    header, records = filtered(batch, b"\1\0\0", horizon_ms=99_000)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == 1020
    assert [record.timestamp for record in records] == [1020]
