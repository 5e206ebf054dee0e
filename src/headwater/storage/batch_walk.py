"""Walking over the batches of a segment file, in bounded memory.

Both walks trust nothing: a length that lies, a foreign format or a batch that the file does not
hold whole raises the failure that names it, and whoever walks knows where the last good one ended.
"""

from collections.abc import Iterator
from typing import NamedTuple

from headwater.model.failures import TruncatedBatch
from headwater.records import kernel
from headwater.records.header import (
    HEADER,
    HEADER_BYTES,
    BatchHeader,
    check_header,
    check_magic_if_present,
)
from headwater.storage.disk import File

_HEADER_CHUNK_BYTES = 4096
_BATCH_CHUNK_BYTES = 1 << 20


class PlacedHeader(NamedTuple):
    """A batch's header and the place of the batch in its file."""

    position: int
    header: BatchHeader

    @property
    def end(self) -> int:
        return self.position + self.header.size_bytes


class PlacedBatch(NamedTuple):
    """A whole batch and its place. The content is only good until the walk goes on."""

    position: int
    header: BatchHeader
    content: memoryview


def walk_headers(file: File, start: int, end: int) -> Iterator[PlacedHeader]:
    """The headers from one batch boundary to the end, hopping over the records."""
    chunk, chunk_start, position = b"", start, start
    while position < end:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk = file.read(min(_HEADER_CHUNK_BYTES, end - position), position)
            chunk_start, at = position, 0
        header = _header_at(chunk, at, end - position)
        yield PlacedHeader(position, header)
        position += header.size_bytes


def walk_batches(file: File, start: int, end: int) -> Iterator[PlacedBatch]:
    """The whole batches from one batch boundary to the end, in order."""
    position = start
    while position < end:
        chunk = memoryview(file.read(min(_BATCH_CHUNK_BYTES, end - position), position))
        headers, _ = kernel.scan(chunk, 0, len(chunk))
        if not headers:
            header = _header_at(chunk, 0, end - position)
            chunk = memoryview(file.read(header.size_bytes, position))
            headers = [header]
        at = 0
        for header in headers:
            yield PlacedBatch(position, header, chunk[at : at + header.size_bytes])
            at += header.size_bytes
            position += header.size_bytes


def _header_at(chunk: bytes | memoryview, at: int, available: int) -> BatchHeader:
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
