"""Check a segment's log for corruption in one pass and in bounded memory.

Lengths are not trusted: a batch that claims more than the rest of the file is the torn tail of a
crash or corrupt, and a claimed length never determines how much is read at once.

Note: after a batch with a wrong CRC the check continues, because its length still led to the next
batch. After an unreadable header it stops, because the next batch cannot be located.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from crc32c import crc32c

from headwater.common.exceptions import BatchError, TruncatedBatch, UnknownCodec, UnsupportedMagic
from headwater.records.batch_header import (
    CRC_END,
    HEADER,
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    check_header,
    codec_of,
)

CHUNK_BYTES = 1 << 20


class Readable(Protocol):
    """Read-only part of `disk.File`."""

    def read(self, length: int, position: int) -> bytes: ...

    def size(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem, and the position in the file where it shows."""

    file: str
    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """Batch whose extent is known. Its CRC may still be wrong."""

    position: int
    header: BatchHeader
    crc_matches: bool


@dataclass(frozen=True, slots=True)
class ZeroTail:
    """Only zeros up to the end: preallocated and not written, not corruption."""

    position: int
    size_bytes: int


Item = CheckedBatch | ZeroTail | Finding


def check_log(log: Readable, name: str, base_offset: int | None = None) -> Iterator[Item]:
    """Yield each batch, followed by its problems.

    Raises a `BatchError` if the file does not begin like a segment, since it is probably another
    file.
    """
    window = ReadWindow(log)
    position = 0
    next_offset = 0 if base_offset is None else base_offset
    while position < window.size:
        try:
            header = _header_at(window, position)
        except BatchError as error:
            yield _unreadable(window, name, position, error)
            return
        left = window.size - position
        if header.size_bytes > left:
            reason = f"torn tail: the batch claims {header.size_bytes} bytes, the file has {left}"
            yield Finding(file=name, position=position, reason=reason)
            return
        crc = window.crc(position + CRC_END, position + header.size_bytes)
        yield CheckedBatch(position, header, crc == header.crc)
        for reason in _reasons(header, crc, next_offset):
            yield Finding(file=name, position=position, reason=reason)
        position += header.size_bytes
        next_offset = header.next_offset


class ReadWindow:
    """Reads a file in bounded chunks; its end is fixed at the start."""

    def __init__(self, file: Readable) -> None:
        self.size = file.size()
        self._file = file
        self._chunk = memoryview(b"")
        self._start = 0

    def read(self, position: int, length: int) -> memoryview:
        """Return that many bytes, at most a chunk; fewer at the end of the file."""
        assert length <= CHUNK_BYTES
        length = min(length, self.size - position)
        end = position + length
        if not self._start <= position <= end <= self._start + len(self._chunk):
            wanted = min(CHUNK_BYTES, self.size - position)
            self._chunk = memoryview(self._file.read(wanted, position))
            self._start = position
        return self._chunk[position - self._start : end - self._start]

    def pieces(self, position: int, end: int) -> Iterator[memoryview]:
        while position < end:
            piece = self.read(position, min(CHUNK_BYTES, end - position))
            if not piece:  # The file shrank under us.
                return
            yield piece
            position += len(piece)

    def crc(self, position: int, end: int) -> int:
        crc = 0
        for piece in self.pieces(position, end):
            crc = crc32c(piece, crc)
        return crc

    def is_zero_from(self, position: int) -> bool:
        return all(is_zero(piece) for piece in self.pieces(position, self.size))


def is_zero(buffer: Buffer) -> bool:
    return not bytes(buffer).strip(b"\0")


def _header_at(window: ReadWindow, position: int) -> BatchHeader:
    raw = window.read(position, HEADER_BYTES)
    if len(raw) < HEADER_BYTES:
        raise TruncatedBatch(f"{len(raw)} bytes are too few for a batch header")
    header = BatchHeader._make(HEADER.unpack(raw))
    check_header(header)
    return header


def _unreadable(window: ReadWindow, name: str, position: int, error: BatchError) -> Item:
    """Classify a position where no batch begins, by the bytes there."""
    left = window.size - position
    # A base offset begins with zeros, so a few of them prove nothing.
    if left >= HEADER_BYTES and window.is_zero_from(position):
        return ZeroTail(position, left)
    if position == 0 and isinstance(error, UnsupportedMagic | TruncatedBatch):
        # Only the first bytes distinguish a foreign file from a corrupt one.
        raise error
    if isinstance(error, TruncatedBatch):
        return Finding(file=name, position=position, reason=f"torn tail: {error}")
    reason = f"unreadable from here to the end ({left} bytes): {error}"
    return Finding(file=name, position=position, reason=reason)


def _reasons(header: BatchHeader, crc: int, next_offset: int) -> Iterator[str]:
    """Yield the problems of a batch of known extent; a wrong CRC explains all others."""
    if crc != header.crc:
        yield f"wrong CRC: the batch says {header.crc:08x}, its bytes give {crc:08x}"
        return
    if header.base_offset < next_offset:
        yield f"base offset {header.base_offset}, expected at least {next_offset}"
    if header.record_count > header.last_offset_delta + 1:
        yield (
            f"{header.record_count} records do not fit "
            f"offsets {header.base_offset} to {header.last_offset}"
        )
    try:
        codec_of(header.attributes)
    except UnknownCodec as error:
        yield str(error)
