"""Serializers and deserializers, chosen by name or given as functions.

A serializer is any function from a value to bytes, a deserializer the reverse. The names here stand
for the formats of Kafka's built-in serializers; Kafka's Java class names are accepted, too, so that
properties files can be used as they are. None passes unchanged in both directions: it is the
tombstone.

Note: values are not coerced. Bytes for a text, a number that does not fit or 2.5 for an integer
raise an error instead of being found out much later.
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
        raise TypeError("expected a text, got bytes")
    return str(value).encode()


def _to_text(raw: bytes) -> str:
    return raw.decode()


def _integers(size_bytes: int) -> _Serde:
    """Java's integers of this size."""

    def serialize(value: Any) -> bytes:
        if isinstance(value, float):
            raise TypeError(f"{value!r} is not an integer")
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
        raise ValueError("a boolean must be one byte, 0 or 1")
    return raw == b"\1"


def _from_uuid(value: Any) -> bytes:
    # As in Kafka: the text form.
    return str(value if isinstance(value, UUID) else UUID(value)).encode()


def _to_uuid(raw: bytes) -> UUID:
    return UUID(raw.decode())


def _from_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _to_json(raw: bytes) -> Any:
    return json.loads(raw)


def _expect(raw: bytes, size_bytes: int) -> None:
    if len(raw) != size_bytes:
        raise ValueError(f"expected {size_bytes} bytes, got {len(raw)}")


_SERDES: Final[dict[str, _Serde | None]] = {
    # Passed through.
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

_JAVA_NAMES: Final = {
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
_JAVA_PACKAGE: Final = "org.apache.kafka.common.serialization."


def serializer(given: object, setting: str) -> Serializer | None:
    """The serializer of a setting; None to pass bytes through."""
    if given is None or callable(given):
        return given
    found = _named(given, setting, "Serializer")
    return None if found is None else found.serialize


def deserializer(given: object, setting: str) -> Deserializer | None:
    """The deserializer of a setting; None to pass bytes through."""
    if given is None or callable(given):
        return given
    found = _named(given, setting, "Deserializer")
    return None if found is None else found.deserialize


def _named(given: object, setting: str, java_suffix: str) -> _Serde | None:
    name = given
    if isinstance(given, str) and given.startswith(_JAVA_PACKAGE):
        kind = given.removeprefix(_JAVA_PACKAGE).removesuffix(java_suffix)
        name = _JAVA_NAMES.get(kind, given)
    if not isinstance(name, str) or name not in _SERDES:
        known = ", ".join(_SERDES)
        raise InvalidSetting(f"{setting} must be a function or one of {known}, not {given!r}")
    return _SERDES[name]
