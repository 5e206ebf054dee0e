"""Remove records from a batch, for compaction.

Base offset, last offset delta, producer id, epoch, base sequence and leader epoch never change. So
offsets keep their meaning, and a returning producer still finds its last sequence, even in a batch
without records.
"""

from headwater.common.ids import NO_TIMESTAMP
from headwater.records.batch_header import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    BatchHeader,
    Buffer,
    TimestampType,
)
from headwater.records.batch_sealing import seal_batch
from headwater.records.compression import compress
from headwater.records.kernel import filter_records, first_timestamp_delta
from headwater.records.payload import DEFAULT_LIMIT_BYTES, record_section


def filter_batch(
    buffer: Buffer,
    header: BatchHeader,
    position: int,
    keep: Buffer,
    *,
    delete_horizon_ms: int | None = None,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> bytes:
    """Return the batch with only the records whose byte in `keep` is not zero.

    A given delete horizon is set (CP-4); otherwise the batch keeps its own. The base timestamp then
    holds the horizon, and the timestamp deltas are relative to it, so that every record keeps its
    timestamp.
    """
    horizon_ms = header.delete_horizon_ms if delete_horizon_ms is None else delete_horizon_ms
    if horizon_ms == header.delete_horizon_ms and 0 not in keep:
        return bytes(memoryview(buffer)[position : position + header.size_bytes])
    payload = record_section(buffer, header, position, limit_bytes)
    first_delta = first_timestamp_delta(payload, header.record_count, keep)
    if first_delta is None:
        return empty_batch(header)
    new_base = header.base_timestamp + first_delta if horizon_ms is None else horizon_ms
    shift = new_base - header.base_timestamp
    kept, kept_count, max_delta = filter_records(payload, header.record_count, keep, shift)
    assert max_delta is not None, "a kept record has a timestamp"
    attributes = header.attributes | (0 if horizon_ms is None else DELETE_HORIZON_FLAG)
    filtered = header._replace(
        attributes=attributes,
        base_timestamp=new_base,
        max_timestamp=_max_timestamp(header, new_base + max_delta),
        record_count=kept_count,
    )
    return seal_batch(filtered, compress(header.codec, kept))


def empty_batch(header: BatchHeader) -> bytes:
    """Return the empty batch that is kept for its producer's state (CP-6).

    Like Kafka, keep the largest timestamp and clear codec and delete horizon.
    """
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG)
    remains = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
    return seal_batch(remains, b"")


def _max_timestamp(header: BatchHeader, largest_kept: int) -> int:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return header.max_timestamp
    return max(largest_kept, NO_TIMESTAMP)
