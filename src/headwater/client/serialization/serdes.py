"""Serializers and deserializers: values to bytes and back, by name or as a function.

A serializer is any function from a value to bytes, a deserializer the other way round. The names
here stand for the plain ones, which give the bytes of Kafka's own; the names of those, Java's
classes, stand for the same, so that a properties file can be taken over as it is. Whoever has a
schema registry brings functions of their own. None passes unchanged in both directions: it is the
tombstone, which no serializer may invent.

What a reader would get wrong: nothing is made to fit. Bytes given as a text, a number of five
bytes, 2.5 as a whole number are mistakes of somebody, and would be found out much later.
"""

import json
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, NamedTuple
from uuid import UUID

from headwater.common.exceptions import InvalidSetting

Serializer = Callable[[Any], bytes]
Deserializer = Callable[[bytes], Any]


class _Serde(NamedTuple):
    serialize: Serializer
    deserialize: Deserializer


def _from_text(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("these are bytes already, and no text")
    return str(value).encode()


def _to_text(raw: bytes) -> str:
    return raw.decode()


def _integers(size_bytes: int) -> _Serde:
    """Java's whole numbers, of so many bytes."""

    def serialize(value: Any) -> bytes:
        if isinstance(value, float):
            raise TypeError(f"{value!r} is no whole number")
        return int(value).to_bytes(size_bytes, "big", signed=True)

    def deserialize(raw: bytes) -> int:
        _expect(raw, size_bytes)
        return int.from_bytes(raw, "big", signed=True)

    return _Serde(serialize, deserialize)


def _floats(layout: Struct) -> _Serde:
    def serialize(value: Any) -> bytes:
        return layout.pack(float(value))

    def deserialize(raw: bytes) -> float:
        _expect(raw, layout.size)
        found: float = layout.unpack(raw)[0]
        return found

    return _Serde(serialize, deserialize)


def _from_boolean(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither True nor False")
    return b"\1" if value else b"\0"


def _to_boolean(raw: bytes) -> bool:
    if raw not in (b"\0", b"\1"):
        raise ValueError("a truth value is one byte, 0 or 1")
    return raw == b"\1"


def _from_uuid(value: Any) -> bytes:
    # Kafka does this: it is written as text.
    return str(value if isinstance(value, UUID) else UUID(value)).encode()


def _to_uuid(raw: bytes) -> UUID:
    return UUID(raw.decode())


def _from_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _to_json(raw: bytes) -> Any:
    return json.loads(raw)


def _expect(raw: bytes, size_bytes: int) -> None:
    if len(raw) != size_bytes:
        raise ValueError(f"there are {len(raw)} bytes, and not {size_bytes}")


_SERDES: Final[dict[str, _Serde | None]] = {
    # Taken and handed out as they are.
    "bytes": None,
    "str": _Serde(_from_text, _to_text),
    "int": _integers(8),
    "int32": _integers(4),
    "int16": _integers(2),
    "float": _floats(Struct(">d")),
    "float32": _floats(Struct(">f")),
    "bool": _Serde(_from_boolean, _to_boolean),
    "uuid": _Serde(_from_uuid, _to_uuid),
    "json": _Serde(_from_json, _to_json),
}

_JAVAS: Final = {
    "ByteArray": "bytes",
    "ByteBuffer": "bytes",
    "Bytes": "bytes",
    "String": "str",
    "Long": "int",
    "Integer": "int32",
    "Short": "int16",
    "Double": "float",
    "Float": "float32",
    "Boolean": "bool",
    "UUID": "uuid",
}
_JAVAS_PACKAGE: Final = "org.apache.kafka.common.serialization."


def serializer(given: object, setting: str) -> Serializer | None:
    """The serializer that a setting names; None where bytes are taken as they are."""
    if given is None or callable(given):
        return given
    found = _named(given, setting, "Serializer")
    return None if found is None else found.serialize


def deserializer(given: object, setting: str) -> Deserializer | None:
    """The deserializer that a setting names; None where bytes are handed out as they are."""
    if given is None or callable(given):
        return given
    found = _named(given, setting, "Deserializer")
    return None if found is None else found.deserialize


def _named(given: object, setting: str, javas_ending: str) -> _Serde | None:
    name = given
    if isinstance(given, str) and given.startswith(_JAVAS_PACKAGE):
        kind = given.removeprefix(_JAVAS_PACKAGE).removesuffix(javas_ending)
        name = _JAVAS.get(kind, given)
    if not isinstance(name, str) or name not in _SERDES:
        known = ", ".join(_SERDES)
        raise InvalidSetting(f"{setting} must be a function or one of {known}, and not {given!r}")
    return _SERDES[name]
