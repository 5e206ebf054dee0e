"""The CRC-32C of a batch: of everything after the checksum's own field.

Base offset, length and leader epoch lie before it and are not covered; a batch that was stamped
by a leader still carries its producer's checksum.
"""

import crc32c

from headwater.model.failures import CorruptBatch
from headwater.records.header import CRC_END, CRC_START, LENGTH_END, BatchHeader, Buffer


def batch_crc(buffer: Buffer, position: int, size_bytes: int) -> int:
    """The checksum that the batch at a position ought to carry. Copies nothing."""
    return crc32c.crc32c(memoryview(buffer)[position + CRC_END : position + size_bytes])


def check_crc(buffer: Buffer, header: BatchHeader, position: int = 0) -> None:
    end = position + LENGTH_END + header.length
    actual = crc32c.crc32c(memoryview(buffer)[position + CRC_END : end])
    if actual != header.crc:
        raise CorruptBatch(f"the batch carries CRC {header.crc:08x}, its bytes give {actual:08x}")


def write_crc(buffer: bytearray | memoryview, position: int, size_bytes: int) -> None:
    """Compute the checksum of a finished batch and put it in its place."""
    crc = batch_crc(buffer, position, size_bytes)
    buffer[position + CRC_START : position + CRC_END] = crc.to_bytes(4, "big")
