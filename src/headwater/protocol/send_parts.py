"""What a message goes out as: a few buffers, and runs of files that nobody reads.

A writer appends to one `Output`. Records are not copied into it: it notes where they belong and
hands out the whole as a list of parts, for one `sendmsg` and, where a part lies in a file, for
`sendfile`. Small records are copied after all, since a part costs more than they do.
"""

from typing import Final, Protocol

_COPIED_BYTES: Final = 1024
# Made once: written out in a call it would be put together for every part.
_Buffer = bytes | bytearray | memoryview


class FileSlot(Protocol):
    """A run of bytes in a file that is sent without being read."""

    @property
    def length(self) -> int: ...


Part = bytes | bytearray | memoryview | FileSlot


def part_bytes(part: Part) -> int:
    """How many bytes a part will put on the wire."""
    return len(part) if isinstance(part, _Buffer) else part.length


class Output(bytearray):
    """The bytes of a message, without the parts that stand between them."""

    __slots__ = ("_inserted",)

    def __init__(self) -> None:
        self._inserted: list[tuple[int, Part]] = []

    def insert_part(self, part: Part) -> None:
        """Puts a part behind what has been written so far."""
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
            # There are always bytes between: each part has its length before it.
            parts += (written[start:position], part)
            start = position
        if start < len(written):
            parts.append(written[start:])
        return parts
