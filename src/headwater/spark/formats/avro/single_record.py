"""Read one record byte by byte, if the walk over all records could not read it.

Besides broken records these are records with a very long array: the walk takes a step over all
records for each of its items.
"""

import struct
from typing import Final

_VARINT_BITS: Final = 64
_INT: Final = 1 << 31


class NotAvro(Exception):
    """A record does not match its schema; `path` names the field, outermost first."""

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def inside(self, name: str) -> "NotAvro":
        return NotAvro(self.reason, (name, *self.path))

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.reason}" if self.path else self.reason


class OneRecord:
    """The bytes of a record and the current position."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def take(self, count: int) -> bytes:
        end = self.at + count
        if count < 0:
            raise NotAvro("a length is negative")
        if end > len(self.data):
            raise NotAvro("the record ends too early")
        found = self.data[self.at : end]
        self.at = end
        return found

    def long(self) -> int:
        found = shift = 0
        while True:
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte <= 0x7F:
                break
            if shift >= _VARINT_BITS:
                raise NotAvro("a number has more than ten bytes")
        found &= (1 << _VARINT_BITS) - 1
        return (found >> 1) ^ -(found & 1)

    def int(self) -> int:
        found = self.long()
        if not -_INT <= found < _INT:
            raise NotAvro(f"{found} is no int")
        return found

    def floating(self, code: str) -> float:
        found: float = struct.unpack(code, self.take(struct.calcsize(code)))[0]
        return found

    def bytes(self) -> bytes:
        return self.take(self.long())

    def text(self) -> str:
        return as_text(self.bytes())


def as_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise NotAvro(f"not UTF-8: byte {error.start} is 0x{raw[error.start]:02x}") from None
