"""Primitive readers and writers of the wire format.

A reader takes a buffer and a position and returns the value and the position after it. If the
buffer is too short it raises IndexError, which the caller turns into ProtocolError (see
`versioned_codec`). Primitives that are needed for every field are inlined by `reader_codegen`,
because a call would cost more than the work itself.
"""

from struct import Struct
from typing import Final

from headwater.common.exceptions import ProtocolError, TooManyElements
from headwater.protocol.send_parts import Output, Part, part_bytes

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
LONGEST_STRING_BYTES: Final = 32767
TAGGED_FIELDS_MAX: Final = 1_000
"""Maximum number of tagged fields per struct; the schemas have fewer than ten."""
_LARGEST_UVARINT: Final = 2**32 - 1

# Encoded small varints, which are nearly all.
_SMALL_UVARINTS: Final = tuple(bytes((n,)) for n in range(128))


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _LARGEST_UVARINT:
                break
            return value, position + 1
    raise ProtocolError("a varint of more than 32 bits")


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return _SMALL_UVARINTS[value]
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip_tagged_fields(buffer: memoryview, position: int, left: list[int] | None = None) -> int:
    """Skip a tag buffer and return the position after it; `left` counts its fields."""
    if not buffer[position]:
        return position + 1
    count, position = read_tag_count(buffer, position)
    if left is not None:
        left[0] -= count
        if left[0] < 0:
            raise TooManyElements("the request has too many elements")
    for _ in range(count):
        _, position, end = read_tag(buffer, position)
        position = end
    return position


def read_tag_count(buffer: memoryview, position: int) -> tuple[int, int]:
    """Return the number of tagged fields and the position after it."""
    count, position = read_uvarint(buffer, position)
    if count > TAGGED_FIELDS_MAX:
        raise ProtocolError(f"{count} tagged fields; {TAGGED_FIELDS_MAX} are allowed")
    return count, position


def read_tag(buffer: memoryview, position: int) -> tuple[int, int, int]:
    """Return tag, start and end of a tagged field."""
    tag, position = read_uvarint(buffer, position)
    size, position = read_uvarint(buffer, position)
    end = position + size
    if end > len(buffer):
        raise ProtocolError(f"tagged field {tag} of {size} bytes overruns the buffer")
    return tag, position, end


def write_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out += b"\xff\xff"
        return
    encoded = value.encode()
    out += _INT16.pack(len(encoded))
    out += encoded


def write_compact_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out.append(0)
        return
    encoded = value.encode()
    if len(encoded) > LONGEST_STRING_BYTES:
        raise ValueError(f"a string of {len(encoded)} bytes cannot be sent")
    out += uvarint(len(encoded) + 1)
    out += encoded


def write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
        return
    out += _INT32.pack(len(value))
    out += value


def write_compact_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(0)
        return
    out += uvarint(len(value) + 1)
    out += value


def write_records(out: Output, value: Part | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
        return
    out += _INT32.pack(part_bytes(value))
    out.insert_part(value)


def write_compact_records(out: Output, value: Part | None) -> None:
    if value is None:
        out.append(0)
        return
    out += uvarint(part_bytes(value) + 1)
    out.insert_part(value)
