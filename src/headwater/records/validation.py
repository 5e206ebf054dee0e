"""What a broker asks of a batch before it appends it for a client, and how it recompresses one.

The header answers almost everything; records are opened only for a compacted topic (null keys)
or for another codec. So timestamps are judged by the header's first and largest, which the CRC
covers, and not record by record.
"""

from dataclasses import replace

from headwater.model.failures import (
    BatchListTooLarge,
    BatchTooLarge,
    InvalidRecord,
    InvalidTimestamp,
    UnknownCodec,
)
from headwater.model.ids import NO_TIMESTAMP
from headwater.model.topic_settings import TopicSettings
from headwater.records.building import build_batch
from headwater.records.checksum import check_crc
from headwater.records.compression import compress
from headwater.records.header import (
    APPEND_TIME_FLAG,
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_BYTES,
    LENGTH_END,
    BatchHeader,
    Buffer,
    Codec,
    read_header,
)
from headwater.records.kernel import check_records
from headwater.records.payload import DEFAULT_LIMIT_BYTES, record_section
from headwater.records.reading import read_records
from headwater.records.sealing import seal_batch

MIN_RECORD_BYTES = 7
"""Length, attributes, two deltas, two lengths and the number of headers, a byte each."""

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def check_client_batch(
    buffer: Buffer,
    header: BatchHeader,
    *,
    settings: TopicSettings,
    now_ms: int,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> None:
    """Raise the failure by which Kafka refuses this batch; `buffer` is all that was sent.

    PV-1, PV-2, PV-3 and CP-8, in Kafka's order, so that the same batch gets the same error.
    """
    if header.base_offset != 0:
        raise InvalidRecord(f"a client's batch starts at offset 0, not {header.base_offset}")
    size_bytes = header.length + LENGTH_END
    if size_bytes > settings.max_message_bytes:
        raise BatchTooLarge(f"{size_bytes} bytes, {settings.max_message_bytes} allowed")
    check_crc(buffer, header)
    if size_bytes != len(buffer):
        raise InvalidRecord("a produce request carries exactly one batch for a partition")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"{header.record_count} records cannot end at delta {header.last_offset_delta}"
        )
    attributes = header.attributes
    records_bytes = size_bytes - HEADER_BYTES
    if not attributes & CODEC_MASK and header.record_count > records_bytes // MIN_RECORD_BYTES:
        # Else a header alone could use up two thousand million offsets. Of compressed records
        # only unpacking would tell.
        raise InvalidRecord(f"{records_bytes} bytes cannot hold {header.record_count} records")
    if attributes & CONTROL_FLAG:
        raise InvalidRecord("clients may not write control batches")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecord(f"an idempotent batch has no sequence {header.base_sequence}")
    if attributes & CODEC_MASK > Codec.ZSTD:
        raise UnknownCodec(f"no compression codec has the number {attributes & CODEC_MASK}")
    if "compact" in settings.cleanup_policy:
        _check_keys(buffer, header, limit_bytes)
    _check_timestamps(header, settings, now_ms)
    if size_bytes > settings.segment_bytes:
        raise BatchListTooLarge(f"{size_bytes} bytes, a segment holds {settings.segment_bytes}")


def wanted_codec(header: BatchHeader, settings: TopicSettings) -> Codec | None:
    """The codec that the topic insists on, or None when the batch may stay as it is (PV-5)."""
    codec = _CODECS.get(settings.compression_type)
    return None if codec is None or codec is header.codec else codec


def compression_level(codec: Codec, settings: TopicSettings) -> int | None:
    match codec:
        case Codec.GZIP:
            return settings.compression_gzip_level
        case Codec.LZ4:
            return settings.compression_lz4_level
        case Codec.ZSTD:
            return settings.compression_zstd_level
        case _:
            return None


def recompress(
    batch: Buffer,
    codec: Codec,
    level: int | None = None,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> bytes:
    """The same records under another codec (PV-5).

    Offset deltas that are not 0, 1, 2 and so on come from clients that Kafka has always
    corrected instead of refused (PV-2): such a batch is built anew.
    """
    header = read_header(batch)
    payload = record_section(batch, header, 0, limit_bytes)
    if not check_records(payload, header.record_count).is_dense:
        batch = _renumbered(batch, header, limit_bytes)
        header = read_header(batch)
        payload = record_section(batch, header, 0, limit_bytes)
    attributes = header.attributes & ~CODEC_MASK | codec
    return seal_batch(header._replace(attributes=attributes), compress(codec, payload, level))


def _check_keys(buffer: Buffer, header: BatchHeader, limit_bytes: int) -> None:
    payload = record_section(buffer, header, 0, limit_bytes)
    if check_records(payload, header.record_count).has_null_key:
        raise InvalidRecord("a compacted topic takes no record without a key")


def _check_timestamps(header: BatchHeader, settings: TopicSettings, now_ms: int) -> None:
    has_append_time = header.attributes & APPEND_TIME_FLAG
    if settings.message_timestamp_type == "LogAppendTime":
        if has_append_time:
            raise InvalidTimestamp("only a broker may say that timestamps are append times")
        return
    latest = header.max_timestamp
    earliest = latest if has_append_time else header.base_timestamp
    if has_append_time and latest == NO_TIMESTAMP:
        raise InvalidTimestamp("only a broker may say that timestamps are append times")
    oldest_ms = now_ms - settings.message_timestamp_before_max_ms
    newest_ms = now_ms + settings.message_timestamp_after_max_ms
    if (earliest != NO_TIMESTAMP and not oldest_ms <= earliest <= newest_ms) or (
        latest != NO_TIMESTAMP and not oldest_ms <= latest <= newest_ms
    ):
        raise InvalidTimestamp(
            f"timestamps {earliest} to {latest} are not all within {oldest_ms} to {newest_ms}"
        )


def _renumbered(batch: Buffer, header: BatchHeader, limit_bytes: int) -> bytes:
    records = [
        replace(record, offset=header.base_offset + index)
        for index, record in enumerate(read_records(batch, header, 0, limit_bytes))
    ]
    return build_batch(
        records,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        timestamp_type=header.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
    )
