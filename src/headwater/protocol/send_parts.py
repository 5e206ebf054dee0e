"""Parts of an encoded message: buffers, and file ranges sent without reading.

A writer appends to one `Output`. Records are not copied into it: it remembers their positions and
returns a list of parts, for one `sendmsg` and, if a part is in a file, for `sendfile`. Small
records are copied, because a part costs more than the copy.
"""

from typing import Final, Protocol

_COPIED_BYTES: Final = 1024
# Defined once: inside a function it would be created on every call.
_Buffer = bytes | bytearray | memoryview


class FileSlot(Protocol):
    """File range that is sent without being read."""

    @property
    def length(self) -> int: ...


Part = bytes | bytearray | memoryview | FileSlot


def part_bytes(part: Part) -> int:
    """Return the size of a part on the wire."""
    return len(part) if isinstance(part, _Buffer) else part.length


class Output(bytearray):
    """Bytes of a message, without the parts between them."""

    __slots__ = ("_inserted",)

    def __init__(self) -> None:
        self._inserted: list[tuple[int, Part]] = []

    def insert_part(self, part: Part) -> None:
        """Insert a part after what has been written so far."""
        if isinstance(part, _Buffer) and len(part) <= _COPIED_BYTES:
            self += part
        else:
            self._inserted.append((len(self), part))

    def parts(self) -> list[Part]:
        if not self._inserted:
            return [self]
        written = memoryview(self)
        parts: list[Part] = []
        start = 0
        for position, part in self._inserted:
            # There are always bytes between parts: each part has a length field before it.
            parts += (written[start:position], part)
            start = position
        if start < len(written):
            parts.append(written[start:])
        return parts
