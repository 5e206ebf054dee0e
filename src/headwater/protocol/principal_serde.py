"""A principal as bytes: how brokers tell each other on whose behalf one asks (KIP-590).

The form of Kafka's default builder: a version, then kind, name, and whether a delegation token was
used, which nobody here can have.
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
    # By no token, and without tagged fields.
    out += b"\0\0"
    return bytes(out)


def read_principal(content: bytes) -> Principal:
    """ProtocolError if the bytes are not exactly one principal."""
    view = memoryview(content)
    try:
        return _read(view)
    except (IndexError, UnicodeDecodeError) as error:
        raise ProtocolError("a principal that cannot be read") from error


def _read(view: memoryview) -> Principal:
    if bytes(view[: _VERSION.size]) != bytes(_VERSION.size):
        raise ProtocolError("a principal of a version that is not known here")
    kind, position = _read_string(view, _VERSION.size)
    name, position = _read_string(view, position)
    if skip_tagged_fields(view, position + 1) != len(view):
        raise ProtocolError("a principal with something behind it")
    return Principal(kind, name)


def _read_string(view: memoryview, position: int) -> tuple[str, int]:
    length, position = read_uvarint(view, position)
    end = position + length - 1
    if not length or end > len(view):
        raise ProtocolError("a principal that is cut short")
    return str(view[position:end], "utf-8"), end
