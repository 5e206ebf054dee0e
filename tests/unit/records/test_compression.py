"""Compression round trips; bombs and garbage are rejected."""

import gzip
import tracemalloc
from collections.abc import Callable

import cramjam
import pytest

from headwater.common.exceptions import BatchError, CorruptBatch, DecompressionBomb, UnknownCodec
from headwater.records.batch_header import Buffer, Codec
from headwater.records.compression import (
    SNAPPY_FRAME_HEADER,
    _decompress_short_gzip,
    compress,
    decompress,
    decompress_briefly,
)

PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
PLAIN = b"".join(b"record %d of many; " % number for number in range(10_000))


def peak_bytes_of_refusal(
    codec: Codec, stream: bytes, limit_bytes: int, failure: type[BatchError]
) -> int:
    """Return the peak memory of a rejected decompression."""
    tracemalloc.start()
    try:
        with pytest.raises(failure):
            decompress(codec, stream, limit_bytes)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", PLAIN], ids=["empty", "tiny", "large"])
def test_compression_survives_a_round_trip(codec: Codec, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data), len(data))) == data
    assert bytes(decompress(codec, memoryview(compress(codec, bytearray(data))), 2**20)) == data


@pytest.mark.parametrize("codec", PACKED)
def test_records_one_byte_over_the_limit_are_rejected(codec: Codec) -> None:
    with pytest.raises(DecompressionBomb):
        decompress(codec, compress(codec, PLAIN), len(PLAIN) - 1)


@pytest.mark.parametrize("codec", PACKED)
def test_decompression_bomb_takes_little_more_memory_than_the_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 * 2**20))
    limit_bytes = 2**20
    peak_bytes = peak_bytes_of_refusal(codec, bomb, limit_bytes, DecompressionBomb)
    assert peak_bytes < 2 * limit_bytes + len(bomb)


@pytest.mark.parametrize("codec", PACKED)
def test_a_stream_that_ends_early_is_corrupt(codec: Codec) -> None:
    packed = compress(codec, PLAIN)
    for length in (0, 1, 10, len(packed) // 2, len(packed) - 1):
        if codec is Codec.SNAPPY and length == 0:
            continue
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:length], 2 * len(PLAIN))


@pytest.mark.parametrize("codec", PACKED)
def test_garbage_is_corrupt(codec: Codec) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, b"\xff\xfe\xfd\xfc garbage, certainly", 1000)


def test_a_gzip_stream_of_two_members_is_read_whole() -> None:
    two = gzip.compress(b"first, ") + gzip.compress(b"second")
    assert bytes(decompress(Codec.GZIP, two, 100)) == b"first, second"


def test_snappy_is_framed_as_in_snappy_java() -> None:
    packed = compress(Codec.SNAPPY, bytes(32 * 1024 + 1))
    assert packed.startswith(bytes.fromhex("82534e41505059000000000100000001"))
    first_bytes = int.from_bytes(packed[16:20], "big")
    first = packed[20 : 20 + first_bytes]
    assert bytes(cramjam.snappy.decompress_raw(first)) == bytes(32 * 1024)
    assert bytes(cramjam.snappy.decompress_raw(packed[24 + first_bytes :])) == b"\0"


def test_a_bare_snappy_block_is_read() -> None:
    bare = bytes(cramjam.snappy.compress_raw(PLAIN))
    assert bytes(decompress(Codec.SNAPPY, bare, len(PLAIN))) == PLAIN
    with pytest.raises(DecompressionBomb):
        decompress(Codec.SNAPPY, bare, len(PLAIN) - 1)


def test_snappy_block_with_a_false_size_costs_no_memory() -> None:
    lie = b"\x80\x80\x80\x20" + bytes(10)  # it claims 64 MiB
    framed = SNAPPY_FRAME_HEADER + len(lie).to_bytes(4, "big") + lie
    for stream in (lie, framed):
        assert peak_bytes_of_refusal(Codec.SNAPPY, stream, 2**40, CorruptBatch) < 2**20


def test_a_snappy_block_longer_than_its_frame_is_corrupt() -> None:
    for length in (-1, 0, 5, 2**31 - 1):
        stream = SNAPPY_FRAME_HEADER + length.to_bytes(4, "big", signed=True) + b"\x01\x00a"
        with pytest.raises(CorruptBatch):
            decompress(Codec.SNAPPY, stream, 100)


def test_lz4_frames_have_independent_blocks_of_64_kib() -> None:
    """Kafka's reader rejects linked blocks."""
    flags, descriptor = compress(Codec.LZ4, PLAIN)[4:6]
    assert flags & 0x20
    assert not flags & 0x04
    assert descriptor == 0x40


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_level_is_used(codec: Codec) -> None:
    data = b"".join(b"%d " % (number * number % 7919) for number in range(20_000))
    quick, thorough = compress(codec, data, 1), compress(codec, data, 9)
    assert quick != thorough
    assert decompress(codec, quick, len(data)) == decompress(codec, thorough, len(data)) == data


@pytest.mark.parametrize("number", [5, 7, -1])
def test_unknown_codec_is_rejected_both_ways(number: int) -> None:
    with pytest.raises(UnknownCodec):
        compress(number, b"")
    with pytest.raises(UnknownCodec):
        decompress(number, b"", 0)


GZIP_RECORD = gzip.compress(b"a record of few bytes")
SHORT_GZIP = {
    "one member": GZIP_RECORD,
    "nothing in it": gzip.compress(b""),
    "a name in its header": GZIP_RECORD[:3]
    + b"\x08"
    + GZIP_RECORD[4:10]
    + b"n\0"
    + GZIP_RECORD[10:],
    "two members": GZIP_RECORD + gzip.compress(b", and more"),
    "bytes after it": GZIP_RECORD + b"more",
    "cut within its content": GZIP_RECORD[:-12],
    "cut within its checksum": GZIP_RECORD[:-6],
    "another checksum": GZIP_RECORD[:-8] + b"\1\2\3\4" + GZIP_RECORD[-4:],
    "another length": GZIP_RECORD[:-1] + b"\7",
    "no gzip": b"a record of few bytes",
    "a bomb": gzip.compress(bytes(20_000)),
    "up to the limit": gzip.compress(bytes(10_000)),
}


@pytest.mark.parametrize("packed", SHORT_GZIP.values(), ids=SHORT_GZIP)
def test_short_gzip_is_decompressed_and_refused_as_any_other(packed: bytes) -> None:
    def outcome(unpack: Callable[[int, Buffer, int], Buffer]) -> bytes | type[Exception]:
        try:
            return bytes(unpack(Codec.GZIP, memoryview(packed), 10_000))
        except (CorruptBatch, DecompressionBomb) as error:
            return type(error)

    assert len(packed) <= 512
    assert outcome(decompress_briefly) == outcome(decompress)


def test_one_short_member_of_gzip_needs_no_other_decompressor() -> None:
    assert _decompress_short_gzip(GZIP_RECORD, 10_000) == b"a record of few bytes"
