"""A batch with some of its records taken out, as compaction leaves it.

What never changes: base offset, last offset delta, producer id, epoch and base sequence, leader
epoch. So offsets keep their meaning, and a producer that comes back still finds its last sequence
number, even in a batch that has no record left.
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
    """The batch at a position with only the records whose byte in `keep` is not zero.

    A horizon given here is set (CP-4); without one, the batch keeps the horizon it has. The
    base timestamp holds the horizon then, and the timestamp deltas count from it, so that every
    record still has its own time.
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
    """What remains of a batch that must stay for its producer's sake (CP-6).

    Kafka keeps the largest timestamp and forgets codec and horizon.
    """
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG)
    remains = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
    return seal_batch(remains, b"")


def _max_timestamp(header: BatchHeader, largest_kept: int) -> int:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return header.max_timestamp
    return max(largest_kept, NO_TIMESTAMP)
