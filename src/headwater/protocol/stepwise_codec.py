"""Encode and decode large messages in steps; other requests run in between.

A message of 50,000 elements takes about 100 ms to decode and as much to encode. These generators do
the same as `codec` and yield after every few elements.
"""

from collections.abc import Generator
from functools import cache
from struct import error as struct_error
from typing import Any, TypeVar

from headwater.common.exceptions import ProtocolError
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import read, write
from headwater.protocol.older_versions import Message, older_class
from headwater.protocol.reader_codegen import StepReader, step_reader_of
from headwater.protocol.send_parts import Output, Part
from headwater.protocol.struct_formats import has_long_arrays
from headwater.protocol.versioned_codec import UNLIMITED
from headwater.protocol.writer_codegen import StepWriter, step_writer_of

M = TypeVar("M", bound=Message)


def read_in_steps(
    cls: type[M], version: int, body: memoryview, elements_max: int = UNLIMITED
) -> Generator[None, None, M]:
    """Decode a message in steps; the body must not change until the last step."""
    older = older_class(cls, version)
    message_class: type = older or cls
    if not has_long_arrays(message_class, version):
        return read(cls, version, body, elements_max)
    try:
        message, _ = yield from _reader(message_class, version, APIS[cls.api].is_flexible(version))(
            body, 0, [elements_max]
        )
    except (IndexError, struct_error) as error:
        raise ProtocolError("the message ends before its last field") from error
    lifted: M = message if older is None else message.lift()
    return lifted


def write_in_steps(message: Message, version: int) -> Generator[None, None, list[Part]]:
    """Encode a message in steps."""
    cls = type(message)
    older = older_class(cls, version)
    message_class: type = older or cls
    if not has_long_arrays(message_class, version):
        return write(message, version)
    out = Output()
    lowered = message if older is None else older.lower(message)
    yield from _writer(message_class, version, APIS[cls.api].is_flexible(version))(out, lowered)
    return out.parts()


@cache
def _reader(message_class: type, version: int, flexible: bool) -> StepReader[Any]:
    return step_reader_of(message_class, version, flexible)


@cache
def _writer(message_class: type, version: int, flexible: bool) -> StepWriter[Any]:
    return step_writer_of(message_class, version, flexible)
