"""A header and its records made into one batch: length, magic and CRC are set here only."""

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
    """The batch of a header and its records, which are packed as the header's codec says."""
    batch = bytearray(HEADER_BYTES + len(payload))
    HEADER.pack_into(batch, 0, *header._replace(length=len(batch) - LENGTH_END, magic=MAGIC, crc=0))
    batch[HEADER_BYTES:] = payload
    write_crc(batch, 0, len(batch))
    return bytes(batch)


def renew_crc(batch: bytearray | memoryview, records_crc: int) -> None:
    """Write the CRC of a batch whose header has changed, without a look at its records."""
    front = crc32c.crc32c(memoryview(batch)[CRC_END:HEADER_BYTES])
    crc = combined_crc(front, records_crc, len(batch) - HEADER_BYTES)
    _CRC.pack_into(batch, CRC_START, crc)
