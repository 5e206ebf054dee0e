"""CRC-32C of a batch, over everything after the CRC field.

Base offset, length and leader epoch precede it and are not covered; a batch stamped by a leader
still has its producer's CRC.
"""

import struct

import crc32c

from headwater.common.exceptions import CorruptBatch
from headwater.records.batch_header import CRC_END, CRC_START, LENGTH_END, BatchHeader, Buffer

_CRC = struct.Struct(">I")


def check_crc(buffer: Buffer, header: BatchHeader, position: int = 0) -> None:
    """Raise unless the batch at a position has a valid CRC. Copies nothing."""
    end = position + LENGTH_END + header.length
    actual = crc32c.crc32c(memoryview(buffer)[position + CRC_END : end])
    if actual != header.crc:
        raise CorruptBatch(f"the batch has CRC {header.crc:08x}, computed {actual:08x}")


def write_crc(
    buffer: bytearray | memoryview, position: int, size_bytes: int, crc_from: int = CRC_END
) -> None:
    """Compute the CRC of a finished batch and write it.

    With `crc_from` it covers only the batch's last bytes, and is not valid for readers.
    """
    crc = crc32c.crc32c(memoryview(buffer)[position + crc_from : position + size_bytes])
    _CRC.pack_into(buffer, position + CRC_START, crc)
