"""Bounds on a compressed batch that hold without decompressing it.

A batch header is only a claim: 90 bytes can claim two billion records, each of which takes an
offset. The expansion limit of a codec bounds such a claim.
"""

from typing import Final

from headwater.records.batch_header import Codec

MIN_RECORD_BYTES: Final = 7
"""One byte each for length, attributes, both deltas, key, value and header count."""

MAX_UNPACKED_BYTES: Final = 100 * 1024 * 1024
"""Decompression limit of one batch: as much as one request may carry (socket.request.max.bytes)."""

BEGINNINGS: Final[dict[int, bytes]] = {
    Codec.GZIP: b"\x1f\x8b",
    Codec.LZ4: b"\x04\x22\x4d\x18",
    Codec.ZSTD: b"\x28\xb5\x2f\xfd",
}
"""Magic bytes of each codec's frames. Snappy frames need not have any."""

MAX_EXPANSION: Final[dict[int, int]] = {
    # Uncompressed.
    Codec.NONE: 1,
    # Deflate: a match of 258 bytes takes at least two bits.
    Codec.GZIP: 1032,
    # A copy of 64 bytes takes three bytes.
    Codec.SNAPPY: 22,
    # Each further byte of a match length adds 255 bytes.
    Codec.LZ4: 255,
    # A block of 128 KiB that repeats one byte takes four bytes.
    Codec.ZSTD: 32768,
}
"""Maximum number of bytes that one compressed byte can expand to."""


def max_record_count(codec: int, packed_bytes: int) -> int:
    """Return the maximum number of records in a record section of this size."""
    unpacked_bytes = packed_bytes * MAX_EXPANSION[codec]
    if codec != Codec.NONE:
        unpacked_bytes = min(unpacked_bytes, MAX_UNPACKED_BYTES)
    return unpacked_bytes // MIN_RECORD_BYTES
