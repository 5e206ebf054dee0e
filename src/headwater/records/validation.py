"""What a broker asks of a batch before it appends it for a client, and how it recompresses one.

The header answers almost everything; records are opened only for a compacted topic (null keys)
or for another codec. So timestamps are judged by the header's first and largest, which the CRC
covers, and not record by record. Of a refused batch the records are opened, to name the bad ones.
"""

from collections.abc import Callable
from dataclasses import replace

from headwater.model.failures import (
    BatchError,
    BatchListTooLarge,
    BatchTooLarge,
    InvalidRecord,
    InvalidTimestamp,
    UnknownCodec,
)
from headwater.model.ids import NO_TIMESTAMP
from headwater.model.topic_settings import TopicSettings
from headwater.records.buffers import MIN_RECORD_BYTES
from headwater.records.building import build_batch
from headwater.records.checksum import check_crc
from headwater.records.compression import BEGINNINGS, compress
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
from headwater.records.record import Record
from headwater.records.sealing import seal_batch

_BLAMED_RECORDS = 1000
_BLAMED_BYTES = 1 << 20

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
        raise BatchTooLarge(
            f"a record batch of {size_bytes} bytes is more than the topic's max.message.bytes "
            f"({settings.max_message_bytes})"
        )
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
    beginning = BEGINNINGS.get(attributes & CODEC_MASK)
    if beginning and buffer[HEADER_BYTES : HEADER_BYTES + len(beginning)] != beginning:
        # All that can be told of the codec without unpacking; consumers would choke on the rest.
        raise InvalidRecord("the records are not compressed with the codec that the batch names")
    if "compact" in settings.cleanup_policy:
        check_keys(buffer, header, limit_bytes)
    check_timestamps(buffer, header, settings, now_ms)
    if size_bytes > settings.segment_bytes:
        raise BatchListTooLarge(f"{size_bytes} bytes, a segment holds {settings.segment_bytes}")


def topic_codec(settings: TopicSettings) -> Codec | None:
    """The codec that the topic insists on, or None when it takes what producers send."""
    return _CODECS.get(settings.compression_type)


def wanted_codec(header: BatchHeader, settings: TopicSettings) -> Codec | None:
    """The codec that the topic insists on, or None when the batch may stay as it is (PV-5)."""
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


def check_keys(buffer: Buffer, header: BatchHeader, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
    """CP-8."""
    payload = record_section(buffer, header, 0, limit_bytes)
    if check_records(payload, header.record_count).has_null_key:
        blamed = _blamed(buffer, header, lambda record: record.key is None)
        raise InvalidRecord("a compacted topic takes no record without a key", blamed)


def check_timestamps(
    buffer: Buffer, header: BatchHeader, settings: TopicSettings, now_ms: int
) -> None:
    """PV-3, by the header alone; only a batch that is refused is opened, to say which records."""
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

    def is_outside(timestamp: int) -> bool:
        return timestamp != NO_TIMESTAMP and not oldest_ms <= timestamp <= newest_ms

    if is_outside(earliest) or is_outside(latest):
        raise InvalidTimestamp(
            f"timestamps {earliest} to {latest} are not all within {oldest_ms} to {newest_ms}",
            _blamed(buffer, header, lambda record: is_outside(record.timestamp)),
        )


def _blamed(
    buffer: Buffer, header: BatchHeader, is_bad: Callable[[Record], bool]
) -> tuple[int, ...]:
    """Which records of a refused batch are bad, by their number in the batch (KIP-467).

    Looked for in small batches only: whoever sends bad batches shall not keep the broker busy.
    """
    if header.record_count > _BLAMED_RECORDS or header.size_bytes > _BLAMED_BYTES:
        return ()
    try:
        records = list(read_records(buffer, header, 0, _BLAMED_BYTES))
    except BatchError:
        return ()
    return tuple(number for number, record in enumerate(records) if is_bad(record))


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
