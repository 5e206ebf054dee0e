"""Positions of messages, which precede a value in Confluent's wire format.

    +------+----------------------+-----------------+-------------------
    | 0x00 | schema id, int32     | message indexes | the message
    +------+----------------------+-----------------+-------------------

The indexes lead from the file to the message: its position, then that of a message inside of it.
They are zigzag varints behind their count; `[0]`, the first message, is a single byte 0.

Note: the positions are those in the registered text. Messages for entries of maps count where the
text has them.
"""

from collections.abc import Sequence
from typing import Final

from headwater.schemas.protobuf.resolution import joined
from headwater.schemas.protobuf.schema import MessageType, ProtoFile
from headwater.schemas.protobuf.tokens import DEPTH_MAX

FIRST: Final = (0,)
_VARINT_BITS_MAX: Final = 35


def encode_indexes(indexes: Sequence[int]) -> bytes:
    if tuple(indexes) == FIRST:
        return b"\0"
    return b"".join(_zigzag(each) for each in (len(indexes), *indexes))


def decode_indexes(raw: bytes, position: int) -> tuple[tuple[int, ...], int]:
    """The indexes, and the position of the message. Raises ValueError."""
    count, position = _read_zigzag(raw, position)
    if count == 0:
        return FIRST, position
    if not 0 < count <= DEPTH_MAX:
        raise ValueError(f"the value has {count} message indexes")
    found = []
    for _ in range(count):
        index, position = _read_zigzag(raw, position)
        found.append(index)
    return tuple(found), position


def indexes_of(file: ProtoFile, full_name: str) -> tuple[int, ...] | None:
    """The indexes of a message; None if the file does not define it."""
    prefix = f"{file.package}." if file.package else ""
    if not full_name.startswith(prefix):
        return None
    found: list[int] = []
    messages: tuple[MessageType, ...] = file.messages
    for part in full_name[len(prefix) :].split("."):
        names = [each.name for each in messages]
        if part not in names:
            return None
        found.append(names.index(part))
        messages = messages[found[-1]].messages
    return tuple(found)


def name_at(file: ProtoFile, indexes: Sequence[int]) -> str | None:
    """The full name of the message at these indexes, or None."""
    name = file.package
    messages: tuple[MessageType, ...] = file.messages
    for index in indexes:
        if not 0 <= index < len(messages):
            return None
        name = joined(name, messages[index].name)
        messages = messages[index].messages
    return name


def _zigzag(number: int) -> bytes:
    left = (number << 1) ^ (number >> 31)
    found = bytearray()
    while left > 0x7F:
        found.append((left & 0x7F) | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def _read_zigzag(raw: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _VARINT_BITS_MAX, 7):
        if position >= len(raw):
            raise ValueError("the value ends within its message indexes")
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise ValueError("a message index has too many bytes")
