"""LogValidator: validate the batches of clients, and recompress them.

The header is checked first, which is cheap: an implausible one is rejected without looking at the
records. Then the records are decompressed and walked, unless the topic has
`headwater.record.validation.enable=false`: structure, offset deltas, timestamps, and keys on
compacted topics. Without validation, timestamps are checked by the header's base and max timestamp.

Only clients' batches are validated. Coordinators write their own, and a follower trusts its leader
beyond the CRC, as in Kafka.
"""

from collections.abc import Callable

from headwater.common.exceptions import (
    BatchError,
    BatchListTooLarge,
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    UnknownCodec,
)
from headwater.common.ids import NO_TIMESTAMP
from headwater.common.settings.setting_types import LONG_MAX
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_header import (
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
from headwater.records.batch_sealing import seal_batch
from headwater.records.batch_stamping import stamp_max_timestamp
from headwater.records.checksum import check_crc
from headwater.records.codec_limits import BEGINNINGS, max_record_count
from headwater.records.compression import compress
from headwater.records.kernel import check_records, renumber_records, validate_records
from headwater.records.kernel.buffers import ValidationResult
from headwater.records.payload import DEFAULT_LIMIT_BYTES, brief_record_section, record_section
from headwater.records.record import Record
from headwater.records.record_reader import read_records

_BLAMED_RECORDS = 1000
_BLAMED_BYTES = 1 << 20
_APPEND_TIME = "LogAppendTime"

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
) -> ValidationResult | None:
    """Raise the error with which Kafka rejects this batch.

    PV-1, PV-2, PV-3 and CP-8, in Kafka's order, so that the same batch gets the same error. Returns
    the result for `corrected`, or None if records are not validated.
    """
    if header.base_offset != 0:
        raise InvalidRecord(f"base offset of a client's batch must be 0, not {header.base_offset}")
    size_bytes = header.length + LENGTH_END
    if size_bytes > settings.max_message_bytes:
        raise BatchTooLarge(
            f"a record batch of {size_bytes} bytes is more than the topic's max.message.bytes "
            f"({settings.max_message_bytes})"
        )
    check_crc(buffer, header)
    if size_bytes != len(buffer):
        raise InvalidRecord("a produce request must have exactly one batch per partition")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"{header.record_count} records cannot end at delta {header.last_offset_delta}"
        )
    attributes = header.attributes
    codec = attributes & CODEC_MASK
    if attributes & CONTROL_FLAG:
        raise InvalidRecord("clients may not write control batches")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecord(f"invalid sequence {header.base_sequence} of an idempotent batch")
    if codec > Codec.ZSTD:
        raise UnknownCodec(f"unknown compression codec {codec}")
    records_bytes = size_bytes - HEADER_BYTES
    if header.record_count > max_record_count(codec, records_bytes):
        # Otherwise a bare header could use up two billion offsets.
        raise InvalidRecord(
            f"{records_bytes} bytes under codec {codec} cannot hold {header.record_count} records"
        )
    beginning = BEGINNINGS.get(codec)
    if beginning and buffer[HEADER_BYTES : HEADER_BYTES + len(beginning)] != beginning:
        raise InvalidRecord("the records are not compressed with the codec that the batch names")
    result = None
    if settings.validates_records:
        result = check_batch_records(
            buffer, header, settings=settings, now_ms=now_ms, limit_bytes=limit_bytes
        )
    else:
        check_timestamps(buffer, header, settings, now_ms)
    if size_bytes > settings.segment_bytes:
        raise BatchListTooLarge(f"{size_bytes} bytes, a segment holds {settings.segment_bytes}")
    return result


def check_batch_records(
    buffer: Buffer,
    header: BatchHeader,
    *,
    settings: TopicSettings,
    now_ms: int,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> ValidationResult:
    """Validate the records of a batch whose header is valid.

    Raises `DecompressionBomb` if they decompress to more than the limit.
    """
    has_create_time = settings.message_timestamp_type != _APPEND_TIME
    if header.attributes & APPEND_TIME_FLAG or not has_create_time:
        # All records have the same timestamp, which is in the header.
        check_timestamps(buffer, header, settings, now_ms)
        oldest_ms, newest_ms = -LONG_MAX - 1, LONG_MAX
    else:
        oldest_ms = max(now_ms - settings.message_timestamp_before_max_ms, -LONG_MAX - 1)
        newest_ms = min(now_ms + settings.message_timestamp_after_max_ms, LONG_MAX)
    needs_keys = settings.is_compacted
    try:
        result = validate_records(
            brief_record_section(buffer, header, limit_bytes),
            header.record_count,
            header.base_timestamp,
            oldest_ms,
            newest_ms,
            needs_keys,
        )
    except CorruptBatch as error:
        # The CRC is right, so the client built the batch like this.
        raise InvalidRecord(str(error)) from error
    lacks_key = needs_keys and result.has_null_key
    if lacks_key or not result.is_in_time:

        def is_bad(record: Record) -> bool:
            time = record.timestamp
            return (needs_keys and record.key is None) or not (
                oldest_ms <= time <= newest_ms or time == NO_TIMESTAMP
            )

        bad_records = _bad_records(buffer, header, is_bad)
        if not result.is_in_time:
            raise InvalidTimestamp(
                f"not all timestamps are within {oldest_ms} to {newest_ms}", bad_records
            )
        raise InvalidRecord("records of a compacted topic must have a key", bad_records)
    return result


def corrected(
    batch: bytearray | memoryview,
    header: BatchHeader,
    result: ValidationResult | None,
    settings: TopicSettings,
) -> tuple[bytearray | memoryview, BatchHeader]:
    """Return the batch with Kafka's corrections; unchanged if there are none.

    Offset deltas other than 0, 1, 2 and so on come from old clients (PV-2), and the header's max
    timestamp is set to that of the records.
    """
    if result is None:
        return batch, header
    if not result.is_dense:
        codec = header.codec
        batch = bytearray(recompress(batch, codec, compression_level(codec, settings)))
        header = read_header(batch)
    if header.max_timestamp != result.max_timestamp and not (
        header.attributes & APPEND_TIME_FLAG or settings.message_timestamp_type == _APPEND_TIME
    ):
        stamp_max_timestamp(batch, header, 0, result.max_timestamp)
        header = header._replace(max_timestamp=result.max_timestamp)
    return batch, header


def topic_codec(settings: TopicSettings) -> Codec | None:
    """Return the topic's codec, or None for compression.type=producer."""
    return _CODECS.get(settings.compression_type)


def wanted_codec(header: BatchHeader, settings: TopicSettings) -> Codec | None:
    """Return the topic's codec, or None if the batch already has it (PV-5)."""
    codec = topic_codec(settings)
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
    """Return the batch with another codec and consecutive offset deltas (PV-5)."""
    header = read_header(batch)
    payload = record_section(batch, header, 0, limit_bytes)
    if not check_records(payload, header.record_count).is_dense:
        payload = renumber_records(payload, header.record_count)
    header = header._replace(
        attributes=header.attributes & ~CODEC_MASK | codec,
        last_offset_delta=header.record_count - 1,
    )
    return seal_batch(header, compress(codec, payload, level))


def check_keys(buffer: Buffer, header: BatchHeader, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
    """Reject records without a key (CP-8)."""
    payload = brief_record_section(buffer, header, limit_bytes)
    if check_records(payload, header.record_count).has_null_key:
        bad_records = _bad_records(buffer, header, lambda record: record.key is None)
        raise InvalidRecord("records of a compacted topic must have a key", bad_records)


def check_timestamps(
    buffer: Buffer, header: BatchHeader, settings: TopicSettings, now_ms: int
) -> None:
    """Check timestamps by the header alone (PV-3); name bad records on failure."""
    has_append_time = header.attributes & APPEND_TIME_FLAG
    if settings.message_timestamp_type == _APPEND_TIME:
        if has_append_time:
            raise InvalidTimestamp("only a broker may set the timestamp type LogAppendTime")
        return
    latest = header.max_timestamp
    earliest = latest if has_append_time else header.base_timestamp
    if has_append_time and latest == NO_TIMESTAMP:
        raise InvalidTimestamp("only a broker may set the timestamp type LogAppendTime")
    oldest_ms = now_ms - settings.message_timestamp_before_max_ms
    newest_ms = now_ms + settings.message_timestamp_after_max_ms

    def is_outside(timestamp: int) -> bool:
        return timestamp != NO_TIMESTAMP and not oldest_ms <= timestamp <= newest_ms

    if is_outside(earliest) or is_outside(latest):
        raise InvalidTimestamp(
            f"timestamps {earliest} to {latest} are not all within {oldest_ms} to {newest_ms}",
            _bad_records(buffer, header, lambda record: is_outside(record.timestamp)),
        )


def _bad_records(
    buffer: Buffer, header: BatchHeader, is_bad: Callable[[Record], bool]
) -> tuple[int, ...]:
    """Return the indexes of the bad records in a rejected batch (KIP-467).

    Only small batches are searched, so that bad batches cannot keep the broker busy.
    """
    if header.record_count > _BLAMED_RECORDS or header.size_bytes > _BLAMED_BYTES:
        return ()
    try:
        records = list(read_records(buffer, header, 0, _BLAMED_BYTES))
    except BatchError:
        return ()
    return tuple(number for number, record in enumerate(records) if is_bad(record))
