"""A header and its records made into one batch: length, magic and CRC are set here only."""

from headwater.records.checksum import write_crc
from headwater.records.header import (
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    Buffer,
)


def seal_batch(header: BatchHeader, payload: Buffer) -> bytes:
    """The batch of a header and its records, which are packed as the header's codec says."""
    batch = bytearray(HEADER_BYTES + len(payload))
    HEADER.pack_into(batch, 0, *header._replace(length=len(batch) - LENGTH_END, magic=MAGIC, crc=0))
    batch[HEADER_BYTES:] = payload
    write_crc(batch, 0, len(batch))
    return bytes(batch)
