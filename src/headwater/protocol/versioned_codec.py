"""How one version of a message lies on the wire: a reader and a writer, made from its shape.

Both are Python functions whose source is written from the shape when they are first asked for,
as `dataclasses` does it, and then kept. Neighbouring fields of fixed size become one `struct`
call. The reader meets hostile bytes: it checks every length against what is left of the buffer
(see `reader_codegen`), so what it allocates is bounded by the size of the frame.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from struct import error as struct_error
from typing import Final, Generic, TypeVar

from headwater.common.exceptions import ProtocolError
from headwater.protocol.reader_codegen import Reader, reader_of
from headwater.protocol.send_parts import Output, Part
from headwater.protocol.writer_codegen import writer_of

M = TypeVar("M")

UNLIMITED: Final = 2**31 - 1
"""No message has more elements than its frame has bytes."""


@dataclass(frozen=True, slots=True)
class VersionedCodec(Generic[M]):
    """One version of one message."""

    _read: Reader[M]
    _write: Callable[[Output, M], None]

    def read(self, buffer: memoryview, elements_max: int = UNLIMITED) -> M:
        """The message at the begin of the buffer, or ProtocolError.

        `elements_max` limits the elements of all its arrays together. What stands behind it is
        ignored. Kafka does this (4.1), and librdkafka (2.x) lives by it: when it asks for the
        metadata of all topics it sends three bytes too many.
        """
        try:
            return self._read(buffer, 0, [elements_max])[0]
        except (IndexError, struct_error) as error:
            raise ProtocolError("the message ends before its last field") from error

    def write(self, message: M) -> list[Part]:
        out = Output()
        self._write(out, message)
        return out.parts()


@cache
def codec_for(cls: type[M], version: int, *, flexible: bool) -> VersionedCodec[M]:
    """The layout of a shape. The caller answers for the version being one that exists."""
    return VersionedCodec(reader_of(cls, version, flexible), writer_of(cls, version, flexible))
