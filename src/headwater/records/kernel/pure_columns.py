"""Columns that the pure kernel decodes records into; used through `pure_kernel`."""

import struct
from array import array

from headwater.common.exceptions import DecompressionBomb
from headwater.records.batch_header import Buffer
from headwater.records.kernel.buffers import BinaryBuffers, ViewBuffers

INT32_MAX = 2**31 - 1

_SHORT_BYTES = 12
_LONG_VIEW = struct.Struct("=i4sii")


class BinaryColumn:
    """Growing column of nullable byte strings."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._offsets = array("i", [0])
        self._nulls: list[int] = []

    @property
    def row_count(self) -> int:
        return len(self._offsets) - 1

    def append(self, view: memoryview, start: int, length: int) -> None:
        if length < 0:
            self._nulls.append(self.row_count)
        elif len(self._data) + length > INT32_MAX:
            raise DecompressionBomb("a column would hold more than 2 GiB")
        else:
            self._data += view[start : start + length]
        self._offsets.append(len(self._data))

    def buffers(self) -> BinaryBuffers:
        validity = _validity(self._nulls, self.row_count)
        return BinaryBuffers(validity, bytearray(self._offsets), self._data)


class ViewColumn:
    """Growing column of nullable byte strings that are not copied."""

    def __init__(self) -> None:
        self._views = bytearray()
        self._buffers: list[Buffer] = []
        self._start = 0
        self._nulls: list[int] = []

    def enter(self, buffer: Buffer, start: int) -> None:
        """Set the buffer, and the position in it, that the next cells refer to."""
        if len(buffer) > INT32_MAX:
            raise DecompressionBomb("a column would hold more than 2 GiB")
        if not self._buffers or self._buffers[-1] is not buffer:
            self._buffers.append(buffer)
        self._start = start

    def append(self, view: memoryview, start: int, length: int) -> None:
        if length < 0:
            self._nulls.append(len(self._views) // _LONG_VIEW.size)
            self._views += bytes(_LONG_VIEW.size)
        elif length <= _SHORT_BYTES:
            self._views += struct.pack("=i12s", length, bytes(view[start : start + length]))
        else:
            beginning = bytes(view[start : start + 4])
            number = len(self._buffers) - 1
            self._views += _LONG_VIEW.pack(length, beginning, number, self._start + start)

    def buffers(self) -> ViewBuffers:
        validity = _validity(self._nulls, len(self._views) // _LONG_VIEW.size)
        return ViewBuffers(validity, self._views, tuple(self._buffers))


def _validity(nulls: list[int], row_count: int) -> bytearray | None:
    """Return one bit per row, clear for null; None if there is no null."""
    if not nulls:
        return None
    bits = bytearray(b"\xff" * ((row_count + 7) // 8))
    for row in nulls:
        bits[row >> 3] &= ~(1 << (row & 7))
    return bits
