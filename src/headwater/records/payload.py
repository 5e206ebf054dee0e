"""The records of a batch as plain bytes, unpacked when the batch is compressed."""

from headwater.records.compression import decompress
from headwater.records.header import CODEC_MASK, HEADER_BYTES, LENGTH_END, BatchHeader, Buffer

DEFAULT_LIMIT_BYTES = 100 * 1024 * 1024
"""As much as one request may carry (socket.request.max.bytes)."""


def record_section(
    buffer: Buffer, header: BatchHeader, position: int = 0, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> Buffer:
    """The records of the batch at a position. An uncompressed batch is not copied."""
    end = position + LENGTH_END + header.length
    packed = memoryview(buffer)[position + HEADER_BYTES : end]
    return decompress(header.attributes & CODEC_MASK, packed, limit_bytes)
