"""Record section of a batch as plain bytes, decompressed if necessary."""

from headwater.records.batch_header import CODEC_MASK, HEADER_BYTES, LENGTH_END, BatchHeader, Buffer
from headwater.records.codec_limits import MAX_UNPACKED_BYTES
from headwater.records.compression import decompress, decompress_briefly

DEFAULT_LIMIT_BYTES = MAX_UNPACKED_BYTES


def record_section(
    buffer: Buffer, header: BatchHeader, position: int = 0, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> Buffer:
    """Return the records of a batch; an uncompressed batch is not copied."""
    end = position + LENGTH_END + header.length
    packed = memoryview(buffer)[position + HEADER_BYTES : end]
    return decompress(header.attributes & CODEC_MASK, packed, limit_bytes)


def brief_record_section(
    batch: Buffer, header: BatchHeader, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> Buffer:
    """Like `record_section`, for short use: the memory is a large reused buffer."""
    packed = memoryview(batch)[HEADER_BYTES : LENGTH_END + header.length]
    return decompress_briefly(header.attributes & CODEC_MASK, packed, limit_bytes)
