"""The small pieces that readers and writers of messages are made of.

A reader takes a buffer and a position and returns the value and the position behind it. Where the
buffer is too short it raises IndexError, which whoever calls it turns into ProtocolError (see
`versioned_codec`). The pieces that readers need for every field are not here but in the source that
`reader_codegen` writes, because a call would cost more than they do.
"""

from struct import Struct
from typing import Final

from headwater.common.exceptions import ProtocolError
from headwater.protocol.send_parts import Output, Part, part_bytes

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
LONGEST_STRING_BYTES: Final = 32767
TAGGED_FIELDS_MAX: Final = 1_000
"""Tagged fields of one struct; the schemas have fewer than ten, so a thousand are an attack."""
_LARGEST_UVARINT: Final = 2**32 - 1

# The small varints, which are nearly all of them, ready to be appended.
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
    """The position behind a tag buffer of which nothing is wanted; `left` counts its fields."""
    if not buffer[position]:
        return position + 1
    count, position = read_tag_count(buffer, position)
    if left is not None:
        left[0] -= count
        if left[0] < 0:
            raise ProtocolError("more elements than a request may have")
    for _ in range(count):
        _, position, end = read_tag(buffer, position)
        position = end
    return position


def read_tag_count(buffer: memoryview, position: int) -> tuple[int, int]:
    """How many tagged fields follow."""
    count, position = read_uvarint(buffer, position)
    if count > TAGGED_FIELDS_MAX:
        raise ProtocolError(f"{count} tagged fields; {TAGGED_FIELDS_MAX} are allowed")
    return count, position


def read_tag(buffer: memoryview, position: int) -> tuple[int, int, int]:
    """The number of a tagged field, where its value begins, and where it ends."""
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
