"""Read primitive Avro values: of all records at once, or of a single one.

A node knows the writer's type, which determines the bytes, and the column's type, which is the
reader's. Note: for a record that is marked bad, `read` returns an arbitrary value of the right
type, which is never used.
"""

import uuid
from decimal import Context, Decimal
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from headwater.records.arrow_values import nulls
from headwater.spark.formats.avro.batch_walk import AnyArray, Bools, Bytes, Walk, buffer, numbers
from headwater.spark.formats.avro.single_record import NotAvro, OneRecord, as_text

_INT: Final = 1 << 31
_DECIMAL_BYTES: Final = 16
_EXACT: Final = Context(prec=100)
_WIDTHS: Final[dict[Any, str]] = {
    pa.int32(): "i4",
    pa.date32(): "i4",
    pa.float32(): "f4",
    pa.float64(): "f8",
}
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_UUID_DASHES: Final = (8, 13, 18, 23)
_UUID_LETTERS: Final = 36


class Node(Protocol):
    """Reads a part of a schema."""

    @property
    def kind(self) -> pa.DataType:
        """Type of the column."""

    def read(self, walk: Walk) -> AnyArray:
        """Read the values of all records and advance past them."""

    def skip(self, walk: Walk) -> None:
        """Advance past the values without reading them."""

    def one(self, record: OneRecord) -> Any:
        """Read the value of one record. Raises `NotAvro` if it is invalid."""


class NullNode:
    """A null, which takes no bytes."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind

    def read(self, walk: Walk) -> AnyArray:
        return nulls(len(walk), self.kind)

    def skip(self, walk: Walk) -> None:
        pass

    def one(self, record: OneRecord) -> Any:  # noqa: ARG002
        return None


class BooleanNode:
    """A byte of 0 or 1."""

    kind: pa.DataType = pa.bool_()

    def read(self, walk: Walk) -> AnyArray:
        byte = walk.fixed(1)[:, 0]
        walk.mark_bad(byte > 1)
        packed = np.packbits(byte == 1, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(walk), [None, buffer(packed)])

    def skip(self, walk: Walk) -> None:
        walk.move(walk.at + 1)

    def one(self, record: OneRecord) -> Any:
        byte = record.take(1)[0]
        if byte > 1:
            raise NotAvro(f"a boolean is 0 or 1, not {byte}")
        return byte == 1


class NumberNode:
    """An int or a long, as a number of any width, a date, or a time in microseconds."""

    def __init__(self, kind: pa.DataType, *, is_int: bool, factor: int = 1) -> None:
        self.kind = kind
        self._is_int = is_int
        self._factor = factor
        self._width = _WIDTHS.get(kind, "i8")

    def read(self, walk: Walk) -> AnyArray:
        found = walk.long()
        if self._is_int:
            walk.mark_bad((found < -_INT) | (found >= _INT))
        if self._factor != 1:
            scaled = found * self._factor
            walk.mark_bad(scaled // self._factor != found)
            found = scaled
        return numbers(found.astype(self._width), self.kind)

    def skip(self, walk: Walk) -> None:
        walk.long()

    def one(self, record: OneRecord) -> Any:
        found = (record.int() if self._is_int else record.long()) * self._factor
        if not -(1 << 63) <= found < 1 << 63:
            raise NotAvro(f"the time {found} is out of range")
        return float(found) if pa.types.is_floating(self.kind) else found


class FloatingNode:
    """A float or a double."""

    def __init__(self, kind: pa.DataType, *, is_float: bool) -> None:
        self.kind = kind
        self._width_bytes = 4 if is_float else 8
        self._code = "<f4" if is_float else "<f8"
        self._is_widened = is_float and kind == pa.float64()

    def read(self, walk: Walk) -> AnyArray:
        raw = np.ascontiguousarray(walk.fixed(self._width_bytes))
        found = raw.view(self._code)[:, 0]
        return numbers(found.astype(np.float64) if self._is_widened else found, self.kind)

    def skip(self, walk: Walk) -> None:
        walk.move(walk.at + self._width_bytes)

    def one(self, record: OneRecord) -> Any:
        return record.floating("<f" if self._width_bytes == 4 else "<d")


class SliceNode:
    """Bytes or a string, read as either."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind

    def read(self, walk: Walk) -> AnyArray:
        raw = walk.bytes_at(*walk.slice())
        return raw if self.kind == pa.binary() else _texts(walk, raw)

    def skip(self, walk: Walk) -> None:
        walk.slice()

    def one(self, record: OneRecord) -> Any:
        return record.bytes() if self.kind == pa.binary() else record.text()


class FixedNode:
    """A fixed number of bytes."""

    def __init__(self, size_bytes: int) -> None:
        self.kind: pa.DataType = pa.binary()
        self._size_bytes = size_bytes

    def read(self, walk: Walk) -> AnyArray:
        start = walk.at
        walk.move(start + self._size_bytes)
        return walk.bytes_at(start, walk.at - start)

    def skip(self, walk: Walk) -> None:
        walk.move(walk.at + self._size_bytes)

    def one(self, record: OneRecord) -> Any:
        return record.take(self._size_bytes)


class UuidNode:
    """A UUID of sixteen bytes, read as its text form."""

    kind: pa.DataType = pa.string()

    def read(self, walk: Walk) -> AnyArray:
        raw = walk.fixed(16)
        digits = np.empty((len(walk), 32), np.uint8)
        digits[:, 0::2], digits[:, 1::2] = _HEX[raw >> 4], _HEX[raw & 15]
        text = np.full((len(walk), _UUID_LETTERS), ord("-"), np.uint8)
        text[:, [at for at in range(_UUID_LETTERS) if at not in _UUID_DASHES]] = digits
        bounds = np.arange(len(walk) + 1, dtype=np.int32) * _UUID_LETTERS
        content = [None, buffer(bounds), buffer(text)]
        return pa.Array.from_buffers(pa.string(), len(walk), content)

    def skip(self, walk: Walk) -> None:
        walk.move(walk.at + 16)

    def one(self, record: OneRecord) -> Any:
        return str(uuid.UUID(bytes=record.take(16)))


class EnumerationNode:
    """An enum's number, read as the column's symbol; None if it has no such symbol."""

    kind: pa.DataType = pa.string()

    def __init__(self, words: tuple[str | None, ...]) -> None:
        self._words = words
        self._is_known = np.array([word is not None for word in words], np.bool_)
        self._texts = pa.array([word or "" for word in words], pa.string())

    def read(self, walk: Walk) -> AnyArray:
        number = walk.long()
        is_bad = (number < 0) | (number >= len(self._words))
        number = np.where(is_bad, 0, number)
        walk.mark_bad(is_bad | ~self._is_known[number])
        return self._texts.take(numbers(number, pa.int64()))

    def skip(self, walk: Walk) -> None:
        walk.long()

    def one(self, record: OneRecord) -> Any:
        number = record.long()
        if not 0 <= number < len(self._words):
            raise NotAvro(f"an enum of {len(self._words)} symbols has no symbol {number}")
        word = self._words[number]
        if word is None:
            raise NotAvro(f"the reader's enum does not have the writer's symbol {number}")
        return word


class DecimalNode:
    """A decimal: its unscaled value as big-endian bytes."""

    def __init__(self, kind: pa.Decimal128Type, size_bytes: int | None) -> None:
        """`size` is None for decimals of variable size."""
        self.kind: pa.DataType = kind
        self._precision = kind.precision
        self._scale = kind.scale
        self._size_bytes = size_bytes

    def read(self, walk: Walk) -> AnyArray:
        if self._size_bytes is None:
            start, length = walk.slice()
        else:
            start = walk.at
            walk.move(start + self._size_bytes)
            length = walk.at - start
        # Longer ones may be valid if they only repeat the sign; they are read one by one.
        is_bad = (length > _DECIMAL_BYTES) | (length == 0)
        walk.mark_bad(is_bad)
        length = np.where(is_bad, 0, length)
        raw = _low_first(walk.batch.data, start, length)
        found = pa.Array.from_buffers(
            pa.decimal128(38, self._scale), len(walk), [None, buffer(raw)]
        )
        return self._within(walk, found)

    def skip(self, walk: Walk) -> None:
        if self._size_bytes is None:
            walk.slice()
        else:
            walk.move(walk.at + self._size_bytes)

    def one(self, record: OneRecord) -> Any:
        raw = record.bytes() if self._size_bytes is None else record.take(self._size_bytes)
        if not raw:
            raise NotAvro("a decimal has no bytes")
        found = int.from_bytes(raw, "big", signed=True)
        if abs(found) >= 10**self._precision:
            raise NotAvro(f"a decimal has more than {self._precision} digits")
        return Decimal(found).scaleb(-self._scale, _EXACT)

    def _within(self, walk: Walk, found: AnyArray) -> AnyArray:
        """Mark decimals with too many digits bad, since Arrow does not check them."""
        try:
            cast = found.cast(self.kind)
            cast.validate(full=True)
            return cast
        except pa.ArrowInvalid:
            is_good = np.array([_fits(each, self._precision) for each in found], np.bool_)
            walk.mark_bad(~is_good)
            zeros = np.zeros((len(walk), _DECIMAL_BYTES), np.uint8)
            kept = np.frombuffer(found.buffers()[1], np.uint8).reshape(-1, _DECIMAL_BYTES)
            raw = np.where(is_good[:, np.newaxis], kept, zeros)
            return pa.Array.from_buffers(self.kind, len(walk), [None, buffer(raw)])


def _fits(found: Any, precision: int) -> bool:
    return len(found.as_py().as_tuple().digits) <= precision


def _low_first(data: Bytes, start: Any, length: Any) -> Bytes:
    """Sixteen bytes for each number, little-endian and sign-extended."""
    raw = np.empty((len(start), _DECIMAL_BYTES), np.uint8)
    sign = np.where((length > 0) & (data[start] > 0x7F), 0xFF, 0).astype(np.uint8)
    last = start + length - 1
    for number in range(_DECIMAL_BYTES):
        is_there: Bools = number < length
        raw[:, number] = np.where(is_there, data[np.where(is_there, last - number, 0)], sign)
    return raw


def _texts(walk: Walk, raw: AnyArray) -> AnyArray:
    """Strings. Invalid UTF-8 is marked bad and read as empty."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        is_good = np.array([_is_text(each.as_py()) for each in raw], np.bool_)
    walk.mark_bad(~is_good)
    kept = [each.as_py().decode() if good else "" for each, good in zip(raw, is_good, strict=True)]
    return pa.array(kept, pa.string())


def _is_text(raw: bytes) -> bool:
    try:
        as_text(raw)
    except NotAvro:
        return False
    return True
