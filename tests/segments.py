"""Segments for tests, written from the format tables and without the code under test.

A test of a segment reader must not build segments with the matching writer: both could share a
mistake.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

START_MS = 1_700_000_000_000


def varint(number: int) -> bytes:
    """Zigzag, seven bits per byte, low group first."""
    rest = (number << 1) ^ (number >> 63)
    groups = bytearray()
    while rest > 0x7F:
        groups.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*groups, rest])


def sized(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def record(
    delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> bytes:
    body = b"\0" + varint(delta) + varint(delta) + sized(key) + sized(value) + varint(len(headers))
    for name, content in headers:
        body += sized(name.encode()) + sized(content)
    return varint(len(body)) + body


def batch(
    base_offset: int,
    records: Sequence[bytes],
    *,
    attributes: int = 0,
    timestamp_ms: int = START_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    leader_epoch: int = 0,
    payload: bytes | None = None,
) -> bytes:
    """One batch, a millisecond and an offset per record; `payload` when it is compressed."""
    last = max(0, len(records) - 1)
    covered = struct.pack(
        ">hiqqqhii",
        attributes,
        last,
        timestamp_ms,
        timestamp_ms + last,
        *producer,
        len(records),
    )
    covered += b"".join(records) if payload is None else payload
    length = 4 + 1 + 4 + len(covered)
    return struct.pack(">qiibI", base_offset, length, leader_epoch, 2, crc32c(covered)) + covered


def marker(base_offset: int, *, commits: bool, producer_id: int = 7, epoch: int = 0) -> bytes:
    """A transaction marker: one control record."""
    key = struct.pack(">hh", 0, 1 if commits else 0)
    value = struct.pack(">hi", 0, 2)
    return batch(
        base_offset,
        [record(0, key, value)],
        attributes=0x30,
        producer=(producer_id, epoch, -1),
    )


def texts(*values: str) -> list[bytes]:
    return [record(delta, b"k", value.encode()) for delta, value in enumerate(values)]


@dataclass(slots=True)
class SegmentBytes:
    """A log and its indexes, grown batch by batch, with an index entry for all but the first."""

    base_offset: int = 0
    log: bytearray = field(default_factory=bytearray)
    index: bytearray = field(default_factory=bytearray)
    time_index: bytearray = field(default_factory=bytearray)
    positions: list[int] = field(default_factory=list)
    next_offset: int = 0

    def __post_init__(self) -> None:
        self.next_offset = self.base_offset

    def grow(self, *values: str) -> None:
        position = len(self.log)
        timestamp_ms = START_MS + self.next_offset
        self.log += batch(self.next_offset, texts(*values), timestamp_ms=timestamp_ms)
        self.next_offset += len(values)
        self.positions.append(position)
        last = self.next_offset - 1
        if position > 0:
            self.index += struct.pack(">ii", last - self.base_offset, position)
            self.time_index += struct.pack(">qi", START_MS + last, last - self.base_offset)


def three_batches(base_offset: int = 0) -> SegmentBytes:
    """Batches of two, one and three records."""
    segment = SegmentBytes(base_offset)
    segment.grow("a", "b")
    segment.grow("c")
    segment.grow("d", "e", "f")
    return segment


class Bytes:
    """A readable file that lies in memory, and remembers the largest read."""

    def __init__(self, content: bytes | bytearray) -> None:
        self.content = bytes(content)
        self.largest_read = 0

    def read(self, length: int, position: int) -> bytes:
        self.largest_read = max(self.largest_read, length)
        return self.content[position : position + length]

    def size(self) -> int:
        return len(self.content)
