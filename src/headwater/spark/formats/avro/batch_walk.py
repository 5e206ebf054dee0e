"""Walk all records of a batch at once: an array of positions, no loop.

    data     | 0 0 0 0 1  6 t e a  2 | 0 0 0 0 1  8 m a t e  4 | ...
    at                    ^                       ^

Every step reads one number or one slice of each record, and advances all positions.

Note: a truncated record does not stop the others. It is marked bad, its position stays at its end,
and values read there are meaningless; the caller checks the marks afterwards.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# An Arrow array of any type; the stubs would distinguish arrays, chunked arrays and scalars.
AnyArray = Any
Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# A step may read this far past the end of a record before that is detected.
_AHEAD_BYTES: Final = 32
_VARINT_BITS: Final = 64


class Batch:
    """The bytes of records of one schema, and which of them are malformed."""

    def __init__(self, values: AnyArray) -> None:
        """`values` is of type binary and has no nulls."""
        _, offsets, raw = values.buffers()
        count = len(values)
        bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + count + 1]
        first, last = int(bounds[0]), int(bounds[-1])
        self.starts: Longs = bounds[:-1].astype(np.int64) - first
        self.ends: Longs = bounds[1:].astype(np.int64) - first
        self.data: Bytes = np.zeros(last - first + _AHEAD_BYTES, np.uint8)
        if raw is not None:
            self.data[: last - first] = np.frombuffer(raw, np.uint8)[first:last]
        self.is_bad: Bools = np.zeros(count, np.bool_)

    def walk(self, skipped_bytes: int) -> "Walk":
        """Start after a prefix of this many bytes, which every record must have."""
        rows = np.arange(len(self.starts))
        walk = Walk(self, rows, self.starts, self.ends)
        walk.move(self.starts + skipped_bytes)
        return walk


class Walk:
    """Current positions in some of the records."""

    __slots__ = ("at", "batch", "ends", "rows")

    def __init__(self, batch: Batch, rows: Longs, at: Longs, ends: Longs) -> None:
        self.batch = batch
        self.rows = rows
        self.at = at
        self.ends = ends

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, chosen: Longs) -> "Walk":
        """Return a walk over some of the records; `rejoin` merges its positions."""
        return Walk(self.batch, self.rows[chosen], self.at[chosen], self.ends[chosen])

    def rejoin(self, chosen: Longs, part: "Walk") -> None:
        self.at = self.at.copy()
        self.at[chosen] = part.at

    def mark_bad(self, is_bad: Bools) -> None:
        if is_bad.any():
            self.batch.is_bad[self.rows[is_bad]] = True

    def is_good(self) -> Bools:
        return ~self.batch.is_bad[self.rows]

    def move(self, to: Longs) -> None:
        is_over = to > self.ends
        if is_over.any():
            self.batch.is_bad[self.rows[is_over]] = True
            to = np.minimum(to, self.ends)
        self.at = to

    def long(self) -> Longs:
        """Decode zigzag varints of one to ten bytes."""
        data = self.batch.data
        byte = data[self.at]
        found = (byte & 0x7F).astype(np.uint64)
        to = self.at + 1
        going_on = np.flatnonzero(byte > 0x7F)
        shift = 7
        while len(going_on) and shift < _VARINT_BITS:
            byte = data[to[going_on]]
            found[going_on] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(shift)
            to[going_on] += 1
            going_on = going_on[byte > 0x7F]
            shift += 7
        if len(going_on):
            self.batch.is_bad[self.rows[going_on]] = True
        self.move(to)
        sign = (found & np.uint64(1)).astype(np.int64)
        return (found >> np.uint64(1)).astype(np.int64) ^ -sign

    def fixed(self, size_bytes: int) -> Bytes:
        """Read a fixed number of bytes of each record, as rows of a matrix."""
        at = self.at
        self.move(at + size_bytes)
        # Records past their end read at their end, which is within the data.
        at = np.where(self.at == at + size_bytes, at, 0)
        if size_bytes > len(self.batch.data):
            return np.broadcast_to(np.uint8(0), (len(at), size_bytes))
        found: Bytes = self.batch.data[at[:, np.newaxis] + np.arange(size_bytes)]
        return found

    def slice(self) -> tuple[Longs, Longs]:
        """Read a length and skip as many bytes; return their positions and lengths."""
        length = self.long()
        is_bad = (length < 0) | (length > self.ends - self.at)
        if is_bad.any():
            self.mark_bad(is_bad)
            length = np.where(is_bad, 0, length)
        start = self.at
        self.at = start + length
        return start, length

    def bytes_at(self, start: Longs, length: Longs) -> AnyArray:
        """Return slices of the data as an Arrow array.

        Slices and the gaps between them form one array, of which Arrow copies every second element.
        That is many times faster than gathering bytes by index.
        """
        count = len(start)
        end = start + length
        if count and bool((start[1:] < end[:-1]).any()):
            order = np.argsort(start, kind="stable")
            back = np.empty(count, np.int64)
            back[order] = np.arange(count)
            return self.bytes_at(start[order], length[order]).take(numbers(back, pa.int64()))
        if not count:
            return pa.Array.from_buffers(pa.binary(), 0, [None, pa.py_buffer(bytes(4)), None])
        bounds = np.empty(2 * count, np.int32)
        bounds[0::2], bounds[1::2] = start, end
        both = pa.Array.from_buffers(
            pa.binary(),
            2 * count - 1,
            [None, buffer(bounds), buffer(self.batch.data)],
        )
        return both.take(numbers(np.arange(0, 2 * count, 2), pa.int64()))


def buffer(values: npt.NDArray[Any]) -> pa.Buffer:
    """Return the bytes of a numpy array as an Arrow buffer, without a copy."""
    # The stubs do not know that a numpy array is a buffer.
    raw: Any = np.ascontiguousarray(values)
    return pa.py_buffer(raw)


def numbers(values: npt.NDArray[Any], kind: pa.DataType) -> AnyArray:
    """Wrap a numpy array, whose items have the type's width, as an Arrow array."""
    return pa.Array.from_buffers(kind, len(values), [None, buffer(values)])


def scatter(count: int, parts: list[tuple[Longs, AnyArray]], kind: pa.DataType) -> AnyArray:
    """Combine parts, each with the values of some rows; other rows are null."""
    parts = [(rows, values) for rows, values in parts if len(rows)]
    if not parts:
        empty: Any = pa.nulls
        return empty(count, kind)
    if len(parts) == 1 and len(parts[0][0]) == count:
        return parts[0][1]
    where = np.zeros(count, np.int64)
    is_there = np.zeros(count, np.bool_)
    first = 0
    for rows, _ in parts:
        where[rows] = np.arange(first, first + len(rows))
        is_there[rows] = True
        first += len(rows)
    whole = pa.concat_arrays([values for _, values in parts])
    places = pa.Array.from_buffers(
        pa.int64(),
        count,
        [buffer(np.packbits(is_there, bitorder="little")), buffer(where)],
    )
    return whole.take(places)
