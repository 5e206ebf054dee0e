"""Reader and writer of one version of a message, generated from its class.

Both are Python functions whose source is generated on first use, as `dataclasses` does, and then
cached. Adjacent fixed-size fields become one `struct` call. The reader handles untrusted bytes: it
checks every length against the rest of the buffer (see `reader_codegen`), so its allocations are
bounded by the size of the frame.
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
    _read: Reader[M]
    _write: Callable[[Output, M], None]

    def read(self, buffer: memoryview, elements_max: int = UNLIMITED) -> M:
        """Decode the message at the start of the buffer, or raise ProtocolError.

        `elements_max` limits the elements of all its arrays together. Trailing bytes are ignored,
        as in Kafka 4.1; librdkafka 2.x relies on it: its Metadata request for all topics has three
        extra bytes.
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
    """Return the codec of a message class; the version must exist."""
    return VersionedCodec(reader_of(cls, version, flexible), writer_of(cls, version, flexible))
