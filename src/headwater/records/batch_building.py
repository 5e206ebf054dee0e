"""MemoryRecordsBuilder: build one batch from records.

For control batches, internal topics and tests. Not the hot path: `arrow_columns.encode_columns`
builds batches in bulk, this builds one readably. By default the result is what a client sends (base
offset 0, leader epoch -1).
"""

from collections.abc import Sequence

from headwater.common.ids import NO_EPOCH, NO_PRODUCER, NO_SEQUENCE, NO_TIMESTAMP
from headwater.records.batch_header import (
    APPEND_TIME_FLAG,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Codec,
    TimestampType,
)
from headwater.records.batch_sealing import seal_batch
from headwater.records.compression import compress
from headwater.records.record import Record
from headwater.records.varints import write_varint


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
    last_offset: int | None = None,
) -> bytes:
    """Build one complete batch.

    A batch may end after its last record (`last_offset`), as after compaction; without records
    `last_offset` is required.
    """
    offsets = _offsets(records, base_offset)
    assert offsets or last_offset is not None, "an empty batch requires last_offset"
    if last_offset is None:
        last_offset = offsets[-1]
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    attributes = _attributes(codec, timestamp_type, is_transactional, is_control)
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_FLAG
    payload = b"".join(
        _encode(record, record.timestamp - base_timestamp, offset - base_offset)
        for record, offset in zip(records, offsets, strict=True)
    )
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max((record.timestamp for record in records), default=NO_TIMESTAMP),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return seal_batch(header, compress(codec, payload, level))


def _offsets(records: Sequence[Record], base_offset: int) -> list[int]:
    offsets: list[int] = []
    following = base_offset
    for record in records:
        offset = following if record.offset is None else record.offset
        assert offset >= following, "offsets rise within a batch"
        offsets.append(offset)
        following = offset + 1
    return offsets


def _attributes(
    codec: Codec, timestamp_type: TimestampType, is_transactional: bool, is_control: bool
) -> int:
    attributes = int(codec)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= APPEND_TIME_FLAG
    if is_transactional:
        attributes |= TRANSACTIONAL_FLAG
    if is_control:
        attributes |= CONTROL_FLAG
    return attributes


def _encode(record: Record, timestamp_delta: int, offset_delta: int) -> bytes:
    parts = [
        b"\x00",
        write_varint(timestamp_delta),
        write_varint(offset_delta),
        _nullable(record.key),
        _nullable(record.value),
        encode_headers(record.headers),
    ]
    body = b"".join(parts)
    return write_varint(len(body)) + body


def encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Encode headers as at the end of a record: count, then key and value of each."""
    parts = [write_varint(len(headers))]
    for key, value in headers:
        parts.append(_nullable(key.encode("utf-8", "surrogateescape")))
        parts.append(_nullable(value))
    return b"".join(parts)


def _nullable(content: bytes | None) -> bytes:
    return write_varint(-1) if content is None else write_varint(len(content)) + content
