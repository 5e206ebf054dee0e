"""Header of a record batch of magic 2 (61 bytes).

    byte 0  base offset       int64   stamped by the leader
         8  length            int32   bytes that follow this field, at least 49
        12  leader epoch      int32   stamped by the leader
        16  magic             int8    2
        17  crc               uint32  CRC-32C of everything after it
        21  attributes        int16   see the flags below
        23  last offset delta int32   survives compaction, unlike the records
        27  base timestamp    int64   or the delete horizon, when bit 6 is set
        35  max timestamp     int64
        43  producer id       int64   -1 for none
        51  producer epoch    int16
        53  base sequence     int32
        57  record count      int32
        61  records           one compressed stream when the codec is not none

The CRC starts after itself, so base offset and leader epoch are stamped without changing it.
`length` does not include the first twelve bytes: a batch occupies `size_bytes`.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from headwater.common.exceptions import CorruptBatch, TruncatedBatch, UnknownCodec, UnsupportedMagic

Buffer = bytes | bytearray | memoryview

HEADER_BYTES = 61
LENGTH_END = 12
CRC_START = 17
CRC_END = 21
MIN_LENGTH = HEADER_BYTES - LENGTH_END
MAGIC = 2
MAGIC_POSITION = 16
FLAGS_POSITION = 22
"""The lower byte of the attributes, which contains all defined flags."""

CODEC_MASK = 0x07
APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

MAX_SEQUENCE = 2**31 - 1

HEADER = struct.Struct(">qiibIhiqqqhii")
assert HEADER.size == HEADER_BYTES


class Codec(IntEnum):
    """Compression codec of a batch; the value is its wire form."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Timestamp type of a batch: create time or log append time."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """Parsed header. A tuple, because one is created for every Produce request."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return LENGTH_END + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType((self.attributes & APPEND_TIME_FLAG) >> 3)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may remove tombstones and markers of this batch, or None."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def last_sequence(self) -> int:
        return sequence_after(self.base_sequence, self.last_offset_delta)


_new_tuple = tuple.__new__
_unpack_header = HEADER.unpack_from


def codec_of(attributes: int) -> Codec:
    number = attributes & CODEC_MASK
    if number > Codec.ZSTD:
        raise UnknownCodec(f"unknown compression codec {number}")
    return Codec(number)


def sequence_after(sequence: int, steps: int) -> int:
    """Return the sequence `steps` records later; after 2147483647 comes 0 (IDP-7)."""
    return (sequence + steps) & MAX_SEQUENCE if sequence >= 0 else sequence


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Parse and check the header at a position, without looking at the records.

    The whole batch must be in the buffer: a shorter one raises `TruncatedBatch`, so that a reader
    at the end of a log can distinguish a torn tail from corruption.
    """
    available = len(buffer) - position
    if available < HEADER_BYTES:
        check_magic_if_present(buffer, position)
        raise TruncatedBatch(f"{available} bytes are too few for a batch header")
    # Every produced batch is parsed here, so the common case does each check once and inline.
    header = _new_tuple(BatchHeader, _unpack_header(buffer, position))
    _, length, _, magic, _, _, last_offset_delta, _, _, _, _, _, record_count = header
    if magic != MAGIC or length < MIN_LENGTH or last_offset_delta < 0 or record_count < 0:
        check_header(header)
    if length + LENGTH_END > available:
        raise TruncatedBatch(f"the batch has {header.size_bytes} bytes, the buffer {available}")
    return header


def check_header(header: BatchHeader) -> None:
    if header.magic != MAGIC:
        raise UnsupportedMagic(f"message format {header.magic} is not supported, only {MAGIC}")
    if header.length < MIN_LENGTH:
        raise CorruptBatch(f"a batch length of {header.length} cannot hold its header")
    if header.last_offset_delta < 0 or header.record_count < 0:
        raise CorruptBatch(
            f"negative counts: last offset delta {header.last_offset_delta}, "
            f"records {header.record_count}"
        )


def check_magic_if_present(buffer: Buffer, position: int) -> None:
    """Report an old message format even if its message is shorter than our header."""
    if len(buffer) - position > MAGIC_POSITION:
        magic = buffer[position + MAGIC_POSITION]
        if magic in (0, 1):
            raise UnsupportedMagic(f"message format {magic} is not supported, only {MAGIC}")
