"""DefaultKafkaPrincipalBuilder's serialization, for Envelope (KIP-590).

A version, then type, name, and whether a delegation token was used, which is always false here.
"""

from struct import Struct
from typing import Final

from headwater.common.exceptions import ProtocolError
from headwater.common.principal import Principal
from headwater.protocol.primitives import read_uvarint, skip_tagged_fields, write_compact_string

_VERSION: Final = Struct(">h")


def write_principal(principal: Principal) -> bytes:
    out = bytearray(_VERSION.size)
    write_compact_string(out, principal.kind)
    write_compact_string(out, principal.name)
    # No delegation token, no tagged fields.
    out += b"\0\0"
    return bytes(out)


def read_principal(content: bytes) -> Principal:
    """Decode a principal; ProtocolError if the bytes are not exactly one."""
    view = memoryview(content)
    try:
        return _read(view)
    except (IndexError, UnicodeDecodeError) as error:
        raise ProtocolError("malformed principal") from error


def _read(view: memoryview) -> Principal:
    if bytes(view[: _VERSION.size]) != bytes(_VERSION.size):
        raise ProtocolError("principal of an unknown version")
    kind, position = _read_string(view, _VERSION.size)
    name, position = _read_string(view, position)
    if skip_tagged_fields(view, position + 1) != len(view):
        raise ProtocolError("trailing bytes after the principal")
    return Principal(kind, name)


def _read_string(view: memoryview, position: int) -> tuple[str, int]:
    length, position = read_uvarint(view, position)
    end = position + length - 1
    if not length or end > len(view):
        raise ProtocolError("truncated principal")
    return str(view[position:end], "utf-8"), end
