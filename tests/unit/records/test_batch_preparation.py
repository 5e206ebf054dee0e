"""Which batches are prepared off the event loop, and that preparation validates like an append."""

import random
from dataclasses import replace

import pytest

from headwater.common.exceptions import (
    BatchListTooLarge,
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
)
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import Codec, read_header
from headwater.records.batch_preparation import (
    LOOP_BATCH_BYTES,
    PreparedBatch,
    check_prepared,
    may_need_preparation,
    needs_preparation,
    prepare_batch,
)
from headwater.records.checksum import check_crc
from headwater.records.record import Record
from headwater.records.record_reader import read_records

NOW_MS = 1_700_000_000_000
PLAIN = TopicSettings()
COMPACTED = TopicSettings(cleanup_policy=("compact",))
ZSTD = TopicSettings(compression_type="zstd")
UNPACKED = TopicSettings(compression_type="uncompressed")
UNVALIDATED = TopicSettings(headwater_record_validation_enable=False)


def batch_of(
    codec: Codec = Codec.NONE, *, key: bytes | None = b"k", value: bytes = b"v" * 2000
) -> bytearray:
    record = Record(key=key, value=value, timestamp=NOW_MS)
    return bytearray(build_batch([record, record], codec=codec))


def prepare(batch: bytearray, settings: TopicSettings) -> PreparedBatch:
    return prepare_batch(batch, settings, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("settings", "codec", "is_needed"),
    [
        (PLAIN, Codec.NONE, False),
        (PLAIN, Codec.GZIP, False),
        (ZSTD, Codec.ZSTD, False),
        (ZSTD, Codec.NONE, True),
        (ZSTD, Codec.LZ4, True),
        (UNPACKED, Codec.NONE, False),
        (UNPACKED, Codec.SNAPPY, True),
        (COMPACTED, Codec.NONE, False),
        (COMPACTED, Codec.LZ4, True),
    ],
)
def test_batch_that_must_be_decompressed_or_recompressed_is_prepared(
    settings: TopicSettings, codec: Codec, is_needed: bool
) -> None:
    """PV-5, CP-8"""
    assert needs_preparation(batch_of(codec), settings) is is_needed
    assert may_need_preparation(settings) or not is_needed


@pytest.mark.parametrize("codec", Codec)
def test_a_large_batch_is_validated_on_a_thread(codec: Codec) -> None:
    noise = random.Random(1).randbytes(LOOP_BATCH_BYTES[codec])
    large = batch_of(codec, value=noise)
    assert needs_preparation(large, PLAIN)
    assert not needs_preparation(large, UNVALIDATED)
    assert needs_preparation(large, replace(UNVALIDATED, cleanup_policy=("compact",)))
    assert not needs_preparation(batch_of(codec), PLAIN)


@pytest.mark.parametrize("codec", Codec)
def test_compressed_batch_that_waits_for_its_turn_is_validated_on_a_thread(codec: Codec) -> None:
    batch = batch_of(codec)
    assert needs_preparation(batch, PLAIN, is_waiting=True) is (codec is not Codec.NONE)
    assert not needs_preparation(batch, UNVALIDATED, is_waiting=True)


@pytest.mark.parametrize("settings", [ZSTD, COMPACTED])
def test_malformed_batch_is_left_for_the_append_to_reject(settings: TopicSettings) -> None:
    batch = batch_of(Codec.LZ4)
    for odd in (b"", batch[:60], batch[:16] + b"\1" + batch[17:], batch[:22] + b"\7" + batch[23:]):
        assert not needs_preparation(odd, settings)


@pytest.mark.parametrize("source", Codec)
def test_a_prepared_batch_has_the_topics_codec_and_the_same_records(source: Codec) -> None:
    """PV-5"""
    before = bytes(batch_of(source))
    prepared = prepare(bytearray(before), ZSTD)
    check_crc(prepared.content, prepared.header)
    assert prepared.header == read_header(prepared.content)
    assert prepared.header.codec is Codec.ZSTD
    records = list(read_records(prepared.content, prepared.header))
    assert records == list(read_records(before, read_header(before)))


def test_preparation_rejects_what_an_append_rejects() -> None:
    """PV-1, PV-3, CP-8"""
    broken = batch_of(Codec.LZ4)
    broken[-1] ^= 1
    with pytest.raises(CorruptBatch):
        prepare(broken, COMPACTED)
    with pytest.raises(InvalidRecord):
        prepare(batch_of(Codec.LZ4, key=None), COMPACTED)
    with pytest.raises(BatchTooLarge):
        prepare(batch_of(), TopicSettings(compression_type="zstd", max_message_bytes=1000))
    with pytest.raises(InvalidTimestamp):
        prepare_batch(batch_of(), ZSTD, now_ms=NOW_MS - 10**9)


def test_size_limits_apply_again_to_the_recompressed_batch() -> None:
    """PV-1: a small enough batch may become too large with the topic's codec."""
    with pytest.raises(BatchTooLarge):
        prepare(
            batch_of(Codec.ZSTD),
            TopicSettings(compression_type="uncompressed", max_message_bytes=1000),
        )
    with pytest.raises(BatchListTooLarge):
        prepare(
            batch_of(Codec.ZSTD), TopicSettings(compression_type="uncompressed", segment_bytes=1000)
        )


def test_settings_changed_meanwhile_are_checked_again() -> None:
    """PV-1, PV-3, CP-8"""
    prepared = prepare(batch_of(key=None), ZSTD)
    check_prepared(prepared, ZSTD, now_ms=NOW_MS)
    # Time passes while a batch is prepared, which is no reason to check it again.
    check_prepared(prepared, ZSTD, now_ms=NOW_MS - 10**9)
    with pytest.raises(InvalidRecord):
        check_prepared(prepared, COMPACTED, now_ms=NOW_MS)
    with pytest.raises(BatchTooLarge):
        check_prepared(prepared, TopicSettings(max_message_bytes=50), now_ms=NOW_MS)
    with pytest.raises(BatchListTooLarge):
        check_prepared(prepared, TopicSettings(segment_bytes=50), now_ms=NOW_MS)
    with pytest.raises(InvalidTimestamp):
        check_prepared(prepared, PLAIN, now_ms=NOW_MS - 10**9)
