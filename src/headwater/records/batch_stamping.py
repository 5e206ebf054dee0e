"""Fields that a leader writes into a batch in place on append.

The CRC does not cover base offset and leader epoch, so stamping them is cheap; it covers the
timestamp type and largest timestamp, so changing those means reading the whole batch again.
"""

import struct

from headwater.records.batch_header import APPEND_TIME_FLAG, BatchHeader
from headwater.records.checksum import write_crc

_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_LEADER_EPOCH_POSITION = 12
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP_POSITION = 35

_write_base_offset = _BASE_OFFSET.pack_into
_write_leader_epoch = _LEADER_EPOCH.pack_into


def assign_offset(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Set base offset and leader epoch of a batch. The CRC stays valid."""
    _write_base_offset(buffer, position, base_offset)
    _write_leader_epoch(buffer, position + _LEADER_EPOCH_POSITION, leader_epoch)


def stamp_append_time(
    buffer: bytearray | memoryview, header: BatchHeader, position: int, now_ms: int
) -> None:
    """Give every record of the batch the broker's time (PV-4).

    The records' timestamp deltas stay as sent; consumers use the largest timestamp instead.
    """
    _restamp_time(buffer, header, position, header.attributes | APPEND_TIME_FLAG, now_ms)


def stamp_create_time(buffer: bytearray | memoryview, header: BatchHeader, position: int) -> None:
    """Clear a client's LogAppendTime flag on a CreateTime topic, as Kafka does."""
    attributes = header.attributes & ~APPEND_TIME_FLAG
    _restamp_time(buffer, header, position, attributes, header.max_timestamp)


def stamp_max_timestamp(
    buffer: bytearray | memoryview, header: BatchHeader, position: int, max_timestamp: int
) -> None:
    """Correct a max timestamp that does not match the records, as Kafka does (PV-3)."""
    _restamp_time(buffer, header, position, header.attributes, max_timestamp)


def _restamp_time(
    buffer: bytearray | memoryview,
    header: BatchHeader,
    position: int,
    attributes: int,
    max_timestamp: int,
) -> None:
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_POSITION, attributes)
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, max_timestamp)
    write_crc(buffer, position, header.size_bytes)
