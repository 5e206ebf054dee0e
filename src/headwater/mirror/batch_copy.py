"""Turn a batch of a log into one that a producer can send.

The records stay as they are, compressed and undecoded; only the header fields that the source log
and the original producer set are cleared.

Note: some batches must be decoded and encoded again, with the same codec, records and timestamps.
Brokers reject batches with gaps, which compaction leaves; a batch with LogAppendTime has its time
in the header only, where the target broker would replace it; and a copy may start within a batch.
"""

from dataclasses import replace
from typing import Final

import pyarrow.compute as pc

from headwater.common.ids import NO_EPOCH, NO_PRODUCER, NO_SEQUENCE
from headwater.records.arrow_columns import decode_batches, encode_columns
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import (
    APPEND_TIME_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
)
from headwater.records.checksum import check_crc
from headwater.records.record_reader import read_records

_REWRITTEN_FLAGS: Final = APPEND_TIME_FLAG | DELETE_HORIZON_FLAG
_UNLIMITED_BYTES: Final = 2**31 - 1


def is_dense(header: BatchHeader) -> bool:
    """Whether every offset of the batch has a record."""
    return header.record_count == header.last_offset_delta + 1


def sendable(
    buffer: Buffer, header: BatchHeader, position: int = 0, first_offset: int = 0
) -> bytearray | None:
    """Copy the batch at a position for sending, without records before `first_offset`.

    None if no record is left. Raises `CorruptBatch` if the CRC is wrong: the producer computes a
    new one, which must not hide corruption.
    """
    check_crc(buffer, header, position)
    if header.record_count == 0:
        return None
    if (
        first_offset > header.base_offset
        or header.attributes & _REWRITTEN_FLAGS
        or not is_dense(header)
    ):
        return _encode_again(buffer, header, position, first_offset)
    content = bytearray(memoryview(buffer)[position : position + header.size_bytes])
    cleared = header._replace(
        base_offset=0,
        leader_epoch=NO_EPOCH,
        attributes=header.attributes & ~TRANSACTIONAL_FLAG,
        producer_id=NO_PRODUCER,
        producer_epoch=NO_EPOCH,
        base_sequence=NO_SEQUENCE,
        crc=0,
    )
    HEADER.pack_into(content, 0, *cleared)
    return content


def _encode_again(
    buffer: Buffer, header: BatchHeader, position: int, first_offset: int
) -> bytearray | None:
    rows = decode_batches(buffer, [(position, header)], first_offset=first_offset, check_crc=False)
    if not rows.num_rows:
        return None
    if pc.call_function("max", [pc.list_value_length(rows.column("headers"))]).as_py():
        # Header keys may be invalid UTF-8, which Arrow columns cannot hold.
        return _record_by_record(buffer, header, position, first_offset)
    kept = rows.select(["key", "value", "timestamp"])
    (packed,) = encode_columns(kept, codec=header.codec, batch_bytes=_UNLIMITED_BYTES)
    return bytearray(packed)


def _record_by_record(
    buffer: Buffer, header: BatchHeader, position: int, first_offset: int
) -> bytearray:
    kept = [
        # `build_batch` assigns new offsets.
        replace(record, offset=None)
        for record in read_records(buffer, header, position)
        if record.offset is None or record.offset >= first_offset
    ]
    return bytearray(build_batch(kept, codec=header.codec))
