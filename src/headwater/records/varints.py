"""Variable-length integers: VARINT and VARLONG in zigzag encoding.

Seven bits per byte, low ones first. Both types use the same encoding; only the maximum differs. A
number longer or larger than its field is corruption here, where Java would drop its upper bits.
"""

from typing import Final

from headwater.common.exceptions import CorruptBatch
from headwater.records.batch_header import Buffer

_ONE_BYTE: Final = tuple(bytes((number,)) for number in range(0x80))


def write_varint(number: int) -> bytes:
    """Encode a number of up to 64 bits; a 32-bit number has the same encoding."""
    rest = (number << 1) ^ (number >> 63)
    if rest <= 0x7F:
        return _ONE_BYTE[rest]
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def read_varint(view: Buffer, position: int, end: int) -> tuple[int, int]:
    number, position = _read_unsigned(view, position, end, 32)
    return (number >> 1) ^ -(number & 1), position


def read_varlong(view: Buffer, position: int, end: int) -> tuple[int, int]:
    number, position = _read_unsigned(view, position, end, 64)
    return (number >> 1) ^ -(number & 1), position


def _read_unsigned(view: Buffer, position: int, end: int, bits: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= end:
            raise CorruptBatch("a number runs over the end of its record")
        byte = view[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if number >> bits:
            raise CorruptBatch("a number is too large for its field")
        if byte < 0x80:
            return number, position
        shift += 7
        if shift >= bits:
            raise CorruptBatch("a number is too long for its field")
