"""Combine a header and its records into a batch, setting length, magic and CRC."""

import struct

import crc32c

from headwater.records.batch_header import (
    CRC_END,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    Buffer,
)
from headwater.records.checksum import write_crc
from headwater.records.kernel import combined_crc

_CRC = struct.Struct(">I")


def seal_batch(header: BatchHeader, payload: Buffer) -> bytes:
    """Build a batch from a header and its records, compressed with the header's codec."""
    batch = bytearray(HEADER_BYTES + len(payload))
    HEADER.pack_into(batch, 0, *header._replace(length=len(batch) - LENGTH_END, magic=MAGIC, crc=0))
    batch[HEADER_BYTES:] = payload
    write_crc(batch, 0, len(batch))
    return bytes(batch)


def renew_crc(batch: bytearray | memoryview, records_crc: int) -> None:
    """Write the CRC of a batch whose header has changed, without reading its records."""
    front = crc32c.crc32c(memoryview(batch)[CRC_END:HEADER_BYTES])
    crc = combined_crc(front, records_crc, len(batch) - HEADER_BYTES)
    _CRC.pack_into(batch, CRC_START, crc)
