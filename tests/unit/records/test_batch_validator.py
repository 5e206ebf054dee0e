"""LogValidator: which batches are rejected, and with which error."""

from dataclasses import replace

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import (
    BatchListTooLarge,
    BatchTooLarge,
    CorruptBatch,
    HeadwaterError,
    InvalidRecord,
    InvalidTimestamp,
    UnknownCodec,
)
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import HEADER, BatchHeader, Codec, TimestampType, read_header
from headwater.records.batch_sealing import seal_batch
from headwater.records.batch_validator import (
    check_client_batch,
    compression_level,
    recompress,
    wanted_codec,
)
from headwater.records.checksum import check_crc, write_crc
from headwater.records.record import Record
from headwater.records.record_reader import read_records

NOW_MS = 1_700_000_000_000
PLAIN = TopicSettings()
COMPACTED = TopicSettings(cleanup_policy=("compact",))
APPEND_TIME = TopicSettings(message_timestamp_type="LogAppendTime")
UNVALIDATED = TopicSettings(headwater_record_validation_enable=False)
NARROW = TopicSettings(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)


def record_at(timestamp: int, key: bytes | None = b"k") -> Record:
    return Record(key=key, value=b"v", timestamp=timestamp)


def check(batch: bytes, settings: TopicSettings = PLAIN) -> None:
    check_client_batch(batch, read_header(batch), settings=settings, now_ms=NOW_MS)


def altered(batch: bytes, **fields: int) -> bytes:
    """Return the bytes with other header fields and a matching CRC."""
    changed = bytearray(batch)
    HEADER.pack_into(changed, 0, *read_header(batch)._replace(**fields))
    write_crc(changed, 0, len(changed))
    return bytes(changed)


GOOD = build_batch([record_at(NOW_MS), record_at(NOW_MS - 1)])


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("settings", [PLAIN, COMPACTED, APPEND_TIME, NARROW])
def test_valid_batch_passes(codec: Codec, settings: TopicSettings) -> None:
    check(build_batch([record_at(NOW_MS)], codec=codec), settings)


@pytest.mark.parametrize(
    ("batch", "failure"),
    [
        (altered(GOOD, base_offset=1), InvalidRecord),
        (altered(GOOD, record_count=1), InvalidRecord),
        (altered(GOOD, record_count=3), InvalidRecord),
        (altered(GOOD, record_count=0, last_offset_delta=0), InvalidRecord),
        (altered(GOOD, attributes=0x20), InvalidRecord),
        (altered(GOOD, producer_id=3, producer_epoch=0), InvalidRecord),
        (altered(GOOD, attributes=5), UnknownCodec),
        (GOOD + GOOD, InvalidRecord),
        (GOOD[:-1] + b"x", CorruptBatch),
    ],
)
def test_batch_that_violates_a_produce_rule_is_rejected(
    batch: bytes, failure: type[HeadwaterError]
) -> None:
    """PV-1, PV-2, IDP-7."""
    with pytest.raises(failure):
        check(batch)


def test_batch_with_more_records_than_its_bytes_can_hold_is_rejected() -> None:
    """PV-2: each record takes an offset, and 61 bytes could claim 2^31 of them."""
    smallest = [Record(key=None, value=None, timestamp=NOW_MS)] * 3
    batch = build_batch(smallest)
    check(batch)
    for count in (4, 2**31 - 1):
        with pytest.raises(InvalidRecord, match="cannot hold"):
            check(altered(batch, record_count=count, last_offset_delta=count - 1))


def test_an_idempotent_batch_with_its_sequence_passes() -> None:
    check(altered(GOOD, producer_id=3, producer_epoch=0, base_sequence=0))


def test_size_limits_have_distinct_errors() -> None:
    """PV-1."""
    size_bytes = len(GOOD)
    check(GOOD, TopicSettings(max_message_bytes=size_bytes, segment_bytes=size_bytes))
    with pytest.raises(BatchTooLarge, match=r"a record batch of .* max\.message\.bytes"):
        check(GOOD, TopicSettings(max_message_bytes=size_bytes - 1))
    with pytest.raises(BatchListTooLarge):
        check(GOOD, TopicSettings(segment_bytes=size_bytes - 1))


@pytest.mark.parametrize("timestamps", [(0,), (-1000,), (500,), (-1000, 500), (0, 500)])
def test_timestamps_at_the_limit_pass(timestamps: tuple[int, ...]) -> None:
    """PV-3."""
    check(build_batch([record_at(NOW_MS + delta) for delta in timestamps]), NARROW)


@pytest.mark.parametrize("timestamps", [(-1001,), (501,), (0, 501), (-1001, 0)])
def test_timestamps_outside_the_limits_are_rejected(timestamps: tuple[int, ...]) -> None:
    """PV-3."""
    with pytest.raises(InvalidTimestamp):
        check(build_batch([record_at(NOW_MS + delta) for delta in timestamps]), NARROW)


@pytest.mark.parametrize("codec", Codec)
def test_bad_records_are_named(codec: Codec) -> None:
    """PV-3: the batch's error includes the indexes of its bad records."""
    old, new = NOW_MS - 10_000, NOW_MS
    times = build_batch([record_at(time) for time in (old, new, old)], codec=codec)
    with pytest.raises(InvalidTimestamp) as refused:
        check(times, NARROW)
    assert refused.value.record_indexes == (0, 2)
    keys = build_batch([record_at(NOW_MS), record_at(NOW_MS, None)], codec=codec)
    with pytest.raises(InvalidRecord) as without_key:
        check(keys, COMPACTED)
    assert without_key.value.record_indexes == (1,)


def test_large_batch_is_rejected_without_naming_records() -> None:
    batch = build_batch([record_at(NOW_MS - 10_000)] * 1001)
    with pytest.raises(InvalidTimestamp) as refused:
        check(batch, NARROW)
    assert refused.value.record_indexes == ()


def test_without_validation_the_header_is_checked() -> None:
    batch = altered(build_batch([record_at(NOW_MS - 10_000)]), attributes=Codec.SNAPPY)
    with pytest.raises(InvalidTimestamp) as refused:
        check(batch, replace(NARROW, headwater_record_validation_enable=False))
    assert refused.value.record_indexes == ()


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_message_format_is_invalid_record(magic: int) -> None:
    """PV-1."""
    batch = bytearray(GOOD)
    batch[16] = magic
    with pytest.raises(HeadwaterError) as refused:
        check(bytes(batch))
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_wrong_crc_is_corrupt_message() -> None:
    """PV-1: the one error that a producer retries."""
    with pytest.raises(HeadwaterError) as refused:
        check(GOOD[:-1] + bytes([GOOD[-1] ^ 1]))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_incomplete_batch_is_invalid_record() -> None:
    """PV-1: for Kafka such a request has no batch, and one is required."""
    with pytest.raises(HeadwaterError) as refused:
        check(GOOD[:-1])
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_records_without_timestamp_pass() -> None:
    """PV-3."""
    check(build_batch([record_at(-1)]), NARROW)


def test_log_append_time_topic_accepts_any_timestamp() -> None:
    check(build_batch([record_at(5)]), TopicSettings(message_timestamp_type="LogAppendTime"))


def test_client_may_not_set_log_append_time() -> None:
    """PV-3: always rejected on a LogAppendTime topic, otherwise only without a timestamp."""

    def claiming(timestamp: int) -> bytes:
        return build_batch([record_at(timestamp)], timestamp_type=TimestampType.LOG_APPEND_TIME)

    with pytest.raises(InvalidTimestamp):
        check(claiming(NOW_MS), APPEND_TIME)
    with pytest.raises(InvalidTimestamp):
        check(claiming(-1), PLAIN)
    with pytest.raises(InvalidTimestamp):
        check(claiming(NOW_MS - 1001), NARROW)
    check(claiming(NOW_MS), PLAIN)


@pytest.mark.parametrize("codec", Codec)
def test_compacted_topic_rejects_null_keys(codec: Codec) -> None:
    """CP-8: one such record rejects the whole batch (PV-6)."""
    batch = build_batch([record_at(NOW_MS), record_at(NOW_MS, key=None)], codec=codec)
    check(batch, PLAIN)
    with pytest.raises(InvalidRecord):
        check(batch, COMPACTED)


def test_only_validation_detects_unreadable_records() -> None:
    broken = seal_batch(read_header(GOOD), GOOD[61:-1])
    check(broken, UNVALIDATED)
    for settings in (
        PLAIN,
        COMPACTED,
        replace(COMPACTED, headwater_record_validation_enable=False),
    ):
        with pytest.raises(InvalidRecord):
            check(broken, settings)


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
def test_recompression_changes_only_the_codec(source: Codec, target: Codec) -> None:
    """PV-5."""
    records = [record_at(NOW_MS + number) for number in range(5)]
    before = build_batch(records, codec=source, producer_id=1, producer_epoch=0, base_sequence=9)
    after = recompress(before, target)
    old, new = read_header(before), read_header(after)
    check_crc(after, new)
    assert new.codec is target
    assert list(read_records(after, new)) == list(read_records(before, old))
    same = {"attributes": 0, "crc": 0, "length": 0}
    assert new._replace(**same) == old._replace(**same)


def test_non_consecutive_offset_deltas_are_corrected() -> None:
    """PV-2."""
    odd = [Record(value=b"a", offset=3, timestamp=5), Record(value=b"b", offset=9, timestamp=6)]
    batch = altered(build_batch(odd, codec=Codec.GZIP), last_offset_delta=1)
    fixed = recompress(batch, Codec.GZIP)
    header = read_header(fixed)
    assert header.codec is Codec.GZIP
    found = [(record.offset, record.value) for record in read_records(fixed, header)]
    assert found == [(0, b"a"), (1, b"b")]


def test_compression_type_producer_keeps_the_codec() -> None:
    header = read_header(build_batch([record_at(1)], codec=Codec.LZ4))
    assert wanted_codec(header, TopicSettings()) is None
    assert wanted_codec(header, TopicSettings(compression_type="lz4")) is None
    assert wanted_codec(header, TopicSettings(compression_type="zstd")) is Codec.ZSTD
    assert wanted_codec(header, TopicSettings(compression_type="uncompressed")) is Codec.NONE


def test_compression_levels_come_from_the_topic_settings() -> None:
    settings = TopicSettings(compression_zstd_level=7)
    assert compression_level(Codec.ZSTD, settings) == 7
    assert compression_level(Codec.SNAPPY, settings) is None


def test_sealing_does_not_trust_the_template() -> None:
    header: BatchHeader = read_header(GOOD)._replace(length=1, magic=9, crc=3)
    assert seal_batch(header, GOOD[61:]) == GOOD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_records_without_their_codecs_magic_are_rejected(codec: Codec) -> None:
    """They would be stored permanently, and no consumer could read past them."""
    with pytest.raises(InvalidRecord, match="codec"):
        check(altered(GOOD, attributes=codec))
