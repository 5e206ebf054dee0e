"""Compress and decompress the records of a batch, with any of five codecs.

Decompression is the one place where a small batch can demand a lot of memory, so every codec writes
into a buffer that never grows beyond the caller's limit. The size that a stream declares is never
trusted. Buffers above 1 MiB are mapped and returned to the operating system as a whole: malloc
would keep such blocks, per thread, and the process would never shrink.

Snappy is framed as in snappy-java, which no Python snappy library supports:

    82 53 4e 41 50 50 59 00   magic
    00 00 00 01               version
    00 00 00 01               oldest version that can read this
    { int32 length, raw snappy block of at most 32 KiB plain data } ...
"""

import struct
import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from headwater.common.exceptions import CorruptBatch, DecompressionBomb, UnknownCodec
from headwater.records.batch_header import Buffer, Codec
from headwater.records.kernel import new_block, new_mapping

SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"
SNAPPY_FRAME_HEADER: Final = SNAPPY_MAGIC + struct.pack(">ii", 1, 1)
SNAPPY_BLOCK_BYTES: Final = 32 * 1024

_BLOCK_LENGTH = struct.Struct(">i")
_FIRST_GUESS_BYTES = 64 * 1024
_GROWTH = 4
_LARGE_BYTES = 1024 * 1024
_SHORT_GZIP_BYTES = 512
_GZIP_WINDOW = 31
_LARGE_GROWTH = 16
_OUTPUT_FULL = "failed to write whole buffer"
"""cramjam's message for a full output buffer; nothing else distinguishes it from corruption."""


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress the records of a batch. No level means the codec's default."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level=None if level == -1 else level))
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            return _compress_lz4(data, level)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=level))
        case _:
            raise UnknownCodec(f"unknown compression codec {codec}")


def decompress(codec: int, data: Buffer, limit_bytes: int) -> Buffer:
    """Decompress the records of a batch; raise `DecompressionBomb` beyond the limit."""
    match codec:
        case Codec.NONE:
            if len(data) > limit_bytes:
                raise DecompressionBomb(f"{len(data)} bytes of records, {limit_bytes} allowed")
            return data
        case Codec.SNAPPY:
            return _decompress_snappy(data, limit_bytes, _fresh)
        case _:
            room_bytes = max(_FIRST_GUESS_BYTES, _GROWTH * len(data))
            return _decompress_stream(_stream(codec), data, limit_bytes, room_bytes, _fresh)


def decompress_briefly(codec: int, data: Buffer, limit_bytes: int) -> Buffer:
    """Like `decompress`, for a caller that drops the result at once.

    The first buffer is a large reused one, so most batches fit it and need no new memory.
    """
    stream = _STREAMS.get(codec)
    if stream is None:
        if codec == Codec.SNAPPY:
            return _decompress_snappy(data, limit_bytes, _reused)
        return decompress(codec, data, limit_bytes)
    if codec == _GZIP and len(data) <= _SHORT_GZIP_BYTES:
        plain = _decompress_short_gzip(data, limit_bytes)
        if plain is not None:
            return plain
    return _decompress_stream(stream, data, limit_bytes, _LARGE_BYTES, _reused)


_DecompressInto = Callable[[Buffer, memoryview], int]
_Allocate = Callable[[int], memoryview]

_GZIP: Final = int(Codec.GZIP)
_STREAMS: Final[dict[int, _DecompressInto]] = {
    _GZIP: cramjam.gzip.decompress_into,
    int(Codec.LZ4): cramjam.lz4.decompress_into,
    int(Codec.ZSTD): cramjam.zstd.decompress_into,
}


def _stream(codec: int) -> _DecompressInto:
    stream = _STREAMS.get(codec)
    if stream is None:
        raise UnknownCodec(f"unknown compression codec {codec}")
    return stream


def _decompress_short_gzip(data: Buffer, limit_bytes: int) -> bytes | None:
    """Decompress exactly one valid gzip member; return None for anything else.

    zlib takes 2 us for a record of 100 bytes where cramjam takes 6.
    """
    stream = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = stream.decompress(data, limit_bytes)
    except zlib.error:
        return None
    return plain if stream.eof and not stream.unused_data else None


def _fresh(size_bytes: int) -> memoryview:
    if size_bytes > _LARGE_BYTES:
        return new_mapping(size_bytes)
    return memoryview(bytearray(size_bytes))


def _reused(size_bytes: int) -> memoryview:
    return new_mapping(size_bytes) if size_bytes > _LARGE_BYTES else new_block(size_bytes)


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    # Kafka's reader accepts only independent blocks, which is not the library's default.
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(data if isinstance(data, bytes) else bytes(data))
    return bytes(compressor.finish())


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    packed = bytearray(SNAPPY_FRAME_HEADER)
    for start in range(0, len(view), SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + SNAPPY_BLOCK_BYTES]))
        packed += _BLOCK_LENGTH.pack(len(block))
        packed += block
    return bytes(packed)


def _decompress_stream(
    decompress_into: _DecompressInto,
    data: Buffer,
    limit_bytes: int,
    room_bytes: int,
    allocate: _Allocate,
) -> Buffer:
    """Decompress into a buffer that starts small and grows, never beyond the limit."""
    room_bytes = min(limit_bytes, room_bytes)
    while True:
        output = allocate(room_bytes)
        try:
            length = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            # Not left to the traceback, which may live until the next garbage collection.
            output.release()
            if _OUTPUT_FULL not in str(error):
                raise CorruptBatch(f"the records cannot be decompressed: {error}") from error
        else:
            return output[:length]
        if room_bytes >= limit_bytes:
            raise DecompressionBomb(f"the records decompress to more than {limit_bytes} bytes")
        # A mapping uses memory only where it is written to, so a large step costs nothing.
        growth = _GROWTH if room_bytes < _LARGE_BYTES else _LARGE_GROWTH
        room_bytes = min(limit_bytes, growth * room_bytes)


def _decompress_snappy(data: Buffer, limit_bytes: int, allocate: _Allocate) -> Buffer:
    view = memoryview(data)
    # Some clients send one bare block. It cannot be mistaken for the frame's magic, which would
    # start with a copy of bytes that do not exist yet.
    is_framed = bytes(view[: len(SNAPPY_MAGIC)]) == SNAPPY_MAGIC
    blocks = _snappy_blocks(view) if is_framed else [view]
    sizes = [_snappy_block_size(block) for block in blocks]
    total_bytes = sum(sizes)
    if total_bytes > limit_bytes:
        raise DecompressionBomb(f"the records decompress to more than {limit_bytes} bytes")
    output = allocate(total_bytes)
    position = 0
    for block, size in zip(blocks, sizes, strict=True):
        try:
            cramjam.snappy.decompress_raw_into(block, output[position : position + size])
        except cramjam.DecompressionError as error:
            output.release()
            raise CorruptBatch(f"the records cannot be decompressed: {error}") from error
        position += size
    return output


def _snappy_blocks(view: memoryview) -> list[memoryview]:
    blocks = []
    position = len(SNAPPY_FRAME_HEADER)
    if len(view) < position:
        raise CorruptBatch("the snappy frame ends within its header")
    while position < len(view):
        start = position + _BLOCK_LENGTH.size
        if start > len(view):
            raise CorruptBatch("the snappy frame ends within a block's length")
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position = start + length
        if length <= 0 or position > len(view):
            raise CorruptBatch(f"a snappy block of {length} bytes does not fit its frame")
        blocks.append(view[start:position])
    return blocks


def _snappy_block_size(block: memoryview) -> int:
    """Return the declared size of a block.

    Snappy emits at most 64 bytes for three bytes of input, so larger declarations are false;
    rejecting them here avoids allocating memory for them.
    """
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"the records cannot be decompressed: {error}") from error
    if size > 64 * len(block):
        raise CorruptBatch(f"a snappy block of {len(block)} bytes claims to hold {size}")
    return size
