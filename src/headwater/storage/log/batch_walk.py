"""Iterate over the batches of a segment file in bounded memory.

Nothing in the file is trusted: a wrong length, a foreign format or an incomplete batch raises a
specific error, and the caller knows where the last good batch ended.
"""

from collections.abc import Iterator
from typing import NamedTuple

from headwater.common.exceptions import TruncatedBatch
from headwater.records.batch_header import (
    HEADER,
    HEADER_BYTES,
    BatchHeader,
    check_header,
    check_magic_if_present,
)
from headwater.records.kernel import producer_headers
from headwater.storage.io.disk import File

_HEADER_CHUNK_BYTES = 4096
_PRODUCER_CHUNK_BYTES = 65_536
_BATCH_CHUNK_BYTES = 1 << 20


class PlacedHeader(NamedTuple):
    """Header of a batch with its position in the file."""

    position: int
    header: BatchHeader

    @property
    def end(self) -> int:
        return self.position + self.header.size_bytes


class PlacedBatch(NamedTuple):
    """Complete batch with its position. The content is valid until the next iteration."""

    position: int
    header: BatchHeader
    content: memoryview


def walk_headers(file: File, start: int, end: int) -> Iterator[PlacedHeader]:
    """Yield the headers from a batch boundary to the end, skipping the records."""
    chunk, chunk_start, position = b"", start, start
    while position < end:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk = file.read(min(_HEADER_CHUNK_BYTES, end - position), position)
            chunk_start, at = position, 0
        header = header_at(chunk, at, end - position)
        yield PlacedHeader(position, header)
        position += header.size_bytes


def walk_producers(file: File, start: int, end: int) -> Iterator[PlacedHeader]:
    """Yield headers of producers' batches, as `producer_headers` returns them."""
    position = start
    while position < end:
        chunk = file.read(min(_PRODUCER_CHUNK_BYTES, end - position), position)
        found, reached = producer_headers(chunk, 0)
        for at, header in found:
            yield PlacedHeader(position + at, header)
        if not reached:
            # Raises the header's error; the scan would have passed a valid one.
            header_at(chunk, 0, end - position)
        position += reached
    if position > end:
        raise TruncatedBatch(f"a batch ends {position - end} bytes after the end of the file")


def walk_batches(file: File, start: int, end: int) -> Iterator[PlacedBatch]:
    """Yield the complete batches from a batch boundary to the end.

    Each is checked individually, not by a scan of the chunk, which would raise for a corrupt batch
    before the good ones before it are yielded.
    """
    chunk, chunk_start, position = memoryview(b""), start, start
    while position < end:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_start, at = _chunk(file, position, end, 0), position, 0
        header = header_at(chunk, at, end - position)
        if at + header.size_bytes > len(chunk):
            chunk = _chunk(file, position, end, header.size_bytes)
            chunk_start, at = position, 0
        yield PlacedBatch(position, header, chunk[at : at + header.size_bytes])
        position += header.size_bytes


def _chunk(file: File, position: int, end: int, at_least_bytes: int) -> memoryview:
    wanted = max(min(_BATCH_CHUNK_BYTES, end - position), at_least_bytes)
    return memoryview(file.read(wanted, position))


def header_at(chunk: bytes | memoryview, at: int, available: int) -> BatchHeader:
    """Return a header; `available` bytes of the batch are in the file."""
    if len(chunk) - at < HEADER_BYTES:
        check_magic_if_present(chunk, at)
        raise TruncatedBatch(f"the file ends {len(chunk) - at} bytes into a batch header")
    header = BatchHeader._make(HEADER.unpack_from(chunk, at))
    check_header(header)
    if header.size_bytes > available:
        raise TruncatedBatch(
            f"the file ends {available} bytes into a batch of {header.size_bytes} bytes"
        )
    return header
