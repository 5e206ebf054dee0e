"""Validation of the records in a client's batch, as in Kafka's LogValidator."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from headwater.common.exceptions import (
    BatchError,
    CorruptBatch,
    DecompressionBomb,
    InvalidRecord,
    InvalidTimestamp,
)
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import (
    HEADER_BYTES,
    BatchHeader,
    Codec,
    TimestampType,
    read_header,
)
from headwater.records.batch_sealing import seal_batch
from headwater.records.batch_validator import check_client_batch, corrected
from headwater.records.checksum import check_crc
from headwater.records.codec_limits import MAX_EXPANSION, MAX_UNPACKED_BYTES, max_record_count
from headwater.records.compression import compress, decompress
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from headwater.records.varints import write_varint

NOW_MS = 1_700_000_000_000
PLAIN = TopicSettings()
UNVALIDATED = TopicSettings(headwater_record_validation_enable=False)
COMPACTED = TopicSettings(cleanup_policy=("compact",))
NARROW = TopicSettings(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
PACKED = [codec for codec in Codec if codec is not Codec.NONE]


def records_at(*timestamps: int, key: bytes | None = b"k") -> list[Record]:
    return [Record(key=key, value=b"v", timestamp=each) for each in timestamps]


def check(batch: bytes, settings: TopicSettings = PLAIN) -> None:
    check_client_batch(batch, read_header(batch), settings=settings, now_ms=NOW_MS)


def repacked(batch: bytes, codec: Codec, change: Callable[[bytes], bytes], **fields: int) -> bytes:
    """Return a batch with changed records and header fields, and a valid CRC."""
    header = read_header(batch)
    plain = change(batch[HEADER_BYTES:])
    return seal_batch(header._replace(attributes=codec, **fields), compress(codec, plain))


def accepted(batch: bytes, settings: TopicSettings = PLAIN) -> tuple[bytes, BatchHeader]:
    """Return the batch as appended."""
    header = read_header(batch)
    result = check_client_batch(batch, header, settings=settings, now_ms=NOW_MS)
    content, after = corrected(bytearray(batch), header, result, settings)
    check_crc(content, after._replace(crc=read_header(content).crc))
    assert read_header(content)._replace(crc=0) == after._replace(crc=0)
    return bytes(content), after


GOOD = build_batch(records_at(NOW_MS, NOW_MS + 1, NOW_MS - 1))

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda plain: plain[:-1],
    "byte left over": lambda plain: plain + b"\0",
    "record left over": lambda plain: plain + plain[: plain[0] // 2 + 1],
    "record missing": lambda plain: plain[plain[0] // 2 + 1 :],
    "length too small": lambda plain: bytes([plain[0] - 2]) + plain[1:],
    "length too large": lambda plain: bytes([plain[0] + 2]) + plain[1:],
    "negative length": lambda plain: b"\1" + plain[1:],
    "length beyond the batch": lambda plain: write_varint(2**31 - 1) + plain[1:],
    "varint without an end": lambda plain: b"\xff" * 11 + plain,
    "key beyond the record": lambda plain: plain[:4] + b"\x7e" + plain[5:],
    "negative header count": lambda plain: (
        plain[: plain[0] // 2] + b"\1" + plain[plain[0] // 2 + 1 :]
    ),
    "headers beyond the record": lambda plain: (
        plain[: plain[0] // 2] + b"\x02" + plain[plain[0] // 2 + 1 :]
    ),
    "nothing": lambda plain: plain[:0],
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("codec", Codec)
def test_corrupt_records_with_a_valid_crc_are_invalid(codec: Codec, damage: str) -> None:
    """PV-2."""
    batch = repacked(GOOD, codec, DAMAGES[damage])
    with pytest.raises(InvalidRecord):
        check(batch)


@pytest.mark.parametrize("codec", PACKED)
def test_stream_that_cannot_be_decompressed_is_invalid_record(codec: Codec) -> None:
    records = records_at(*range(NOW_MS, NOW_MS + 200))
    good = build_batch(records, codec=codec)
    payload = bytearray(good[HEADER_BYTES:])
    header = read_header(good)
    cut = seal_batch(header, payload[: len(payload) // 2])
    with pytest.raises(InvalidRecord):
        check(cut)
    refused = 0
    for position in range(0, len(payload), 7):
        changed = bytearray(payload)
        changed[position] ^= 0x55
        batch = seal_batch(header, changed)
        try:
            check(batch)
        except BatchError:
            refused += 1
        else:
            # Some bytes have no meaning, or are part of a value; then all records can be read.
            assert len(list(read_records(batch, header))) == len(records)
    assert refused


@pytest.mark.parametrize("codec", PACKED)
def test_impossible_record_count_is_rejected_even_without_validation(
    codec: Codec,
) -> None:
    """A header of 61 bytes must not use up two billion offsets."""
    claim = 2**31 - 1
    header = read_header(build_batch(records_at(NOW_MS), codec=codec))
    payload = compress(codec, GOOD[HEADER_BYTES:])
    lie = seal_batch(header._replace(record_count=claim, last_offset_delta=claim - 1), payload)
    for settings in (PLAIN, UNVALIDATED):
        with pytest.raises(InvalidRecord, match="cannot hold"):
            check(lie, settings)
    most = max_record_count(codec, len(payload))
    small = seal_batch(header._replace(record_count=most, last_offset_delta=most - 1), payload)
    check(small, UNVALIDATED)
    with pytest.raises(InvalidRecord):
        check(small)


@pytest.mark.parametrize("codec", PACKED)
def test_expansion_limits_hold_for_each_codec(codec: Codec) -> None:
    """The bound must hold for the most compressible input."""
    zeros = bytes(8 << 20)
    packed = compress(codec, zeros)
    assert len(decompress(codec, packed, len(zeros))) <= len(packed) * MAX_EXPANSION[codec]
    assert max_record_count(codec, 2**40) == MAX_UNPACKED_BYTES // 7


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("timestamps", [(0, -1001, 0), (0, 501, 0), (0, -1001, 501)])
def test_every_timestamp_is_checked_not_only_the_headers(
    codec: Codec, timestamps: tuple[int, ...]
) -> None:
    """PV-3: a batch may claim any base and max timestamp."""
    batch = build_batch(records_at(*(NOW_MS + each for each in timestamps)))
    claimed = repacked(batch, codec, bytes, max_timestamp=NOW_MS)
    check(claimed, replace(NARROW, headwater_record_validation_enable=False))
    with pytest.raises(InvalidTimestamp) as refused:
        check(claimed, NARROW)
    bad = tuple(n for n, each in enumerate(timestamps) if not -1000 <= each <= 500)
    assert refused.value.record_indexes == bad


@pytest.mark.parametrize("codec", Codec)
def test_base_timestamp_that_no_record_has_is_not_checked(codec: Codec) -> None:
    plain = build_batch(records_at(NOW_MS, NOW_MS))
    far = NOW_MS - 10_000

    def moved(records: bytes) -> bytes:
        delta = write_varint(10_000)
        size = records[0] // 2 + 1
        return b"".join(
            write_varint(len(body) + len(delta) - 1) + body[:1] + delta + body[2:]
            for body in (records[1:size], records[size + 1 :])
        )

    check(repacked(plain, codec, moved, base_timestamp=far), NARROW)


@pytest.mark.parametrize("codec", Codec)
def test_records_without_timestamp_pass_any_limit(codec: Codec) -> None:
    check(build_batch(records_at(-1, NOW_MS, -1), codec=codec), NARROW)


@pytest.mark.parametrize("codec", Codec)
def test_bad_timestamp_outweighs_a_missing_key_unless_in_the_same_record(codec: Codec) -> None:
    """PV-3, CP-8: Kafka checks a record's key first and a batch's timestamps first."""
    narrow = replace(NARROW, cleanup_policy=("compact",))
    (late,) = records_at(NOW_MS - 5000)
    keyless, late_and_keyless = (replace(each, key=None) for each in (*records_at(NOW_MS), late))
    with pytest.raises(InvalidTimestamp) as refused:
        check(build_batch([keyless, late], codec=codec), narrow)
    assert refused.value.record_indexes == (0, 1)
    with pytest.raises(InvalidRecord):
        check(build_batch([late_and_keyless], codec=codec), narrow)


@pytest.mark.parametrize("codec", Codec)
def test_wrong_max_timestamp_is_corrected(codec: Codec) -> None:
    """The time index and retention use it."""
    wrong = repacked(GOOD, codec, bytes, max_timestamp=NOW_MS - 77)
    content, header = accepted(wrong)
    assert header.max_timestamp == NOW_MS + 1
    assert list(read_records(content, header)) == list(read_records(GOOD, read_header(GOOD)))
    assert accepted(wrong, UNVALIDATED) == (wrong, read_header(wrong))


@pytest.mark.parametrize("codec", Codec)
def test_non_consecutive_offset_deltas_are_corrected(codec: Codec) -> None:
    """PV-2."""
    records = [replace(each, offset=5 * n) for n, each in enumerate(records_at(*[NOW_MS] * 300))]
    gaps = build_batch(records, codec=codec)
    count = len(records)
    wrong = seal_batch(read_header(gaps)._replace(last_offset_delta=count - 1), gaps[HEADER_BYTES:])
    content, header = accepted(wrong)
    assert header.codec is codec
    assert header.last_offset_delta == count - 1
    assert list(read_records(content, header)) == [
        replace(each, offset=n) for n, each in enumerate(records)
    ]


@pytest.mark.parametrize("codec", Codec)
def test_valid_batch_is_appended_unchanged(codec: Codec) -> None:
    batch = build_batch(records_at(NOW_MS, NOW_MS + 7, NOW_MS - 3), codec=codec)
    assert accepted(batch) == (batch, read_header(batch))


def test_log_append_time_set_by_a_client_is_checked_by_the_header() -> None:
    """PV-3: every record then has the header's max timestamp."""
    stamped = build_batch(records_at(NOW_MS), timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert accepted(stamped, NARROW)[1].max_timestamp == NOW_MS
    with pytest.raises(InvalidTimestamp):
        check(stamped, TopicSettings(message_timestamp_type="LogAppendTime"))


@pytest.mark.parametrize("codec", PACKED)
def test_batch_that_decompresses_too_far_is_too_large(codec: Codec) -> None:
    batch = build_batch([Record(value=bytes(50_000), timestamp=NOW_MS)], codec=codec)
    header = read_header(batch)
    check_client_batch(batch, header, settings=PLAIN, now_ms=NOW_MS, limit_bytes=60_000)
    with pytest.raises(DecompressionBomb):
        check_client_batch(batch, header, settings=PLAIN, now_ms=NOW_MS, limit_bytes=40_000)


def test_wrong_crc_is_still_corrupt_message() -> None:
    """PV-1: producers retry CORRUPT_MESSAGE."""
    with pytest.raises(CorruptBatch):
        check(GOOD[:-1] + b"x")
    with pytest.raises(InvalidRecord):
        check(build_batch(records_at(NOW_MS, key=None)), COMPACTED)
