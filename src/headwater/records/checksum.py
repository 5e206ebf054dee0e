"""The CRC-32C of a batch: of everything after the checksum's own field.

Base offset, length and leader epoch lie before it and are not covered; a batch that was stamped
by a leader still carries its producer's checksum.
"""

import struct

import crc32c

from headwater.common.exceptions import CorruptBatch
from headwater.records.batch_header import CRC_END, CRC_START, LENGTH_END, BatchHeader, Buffer

_CRC = struct.Struct(">I")


def check_crc(buffer: Buffer, header: BatchHeader, position: int = 0) -> None:
    """Raise unless the batch at a position carries the checksum of its bytes. Copies nothing."""
    end = position + LENGTH_END + header.length
    actual = crc32c.crc32c(memoryview(buffer)[position + CRC_END : end])
    if actual != header.crc:
        raise CorruptBatch(f"the batch carries CRC {header.crc:08x}, its bytes give {actual:08x}")


def write_crc(
    buffer: bytearray | memoryview, position: int, size_bytes: int, crc_from: int = CRC_END
) -> None:
    """Compute the checksum of a finished batch and put it in its place.

    With `crc_from` it is that of the batch's last bytes only, which no reader will take for right.
    """
    crc = crc32c.crc32c(memoryview(buffer)[position + crc_from : position + size_bytes])
    _CRC.pack_into(buffer, position + CRC_START, crc)
