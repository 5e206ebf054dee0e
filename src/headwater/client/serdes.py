"""Serializers and deserializers: values to bytes and back, by name or as a function.

A serializer is any function from a value to bytes, a deserializer the other way round. The names
here stand for the plain ones; whoever has a schema registry brings functions of their own. None
passes unchanged in both directions: it is the tombstone, which no serializer may invent.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from headwater.model.failures import InvalidSetting

Serializer = Callable[[Any], bytes]
Deserializer = Callable[[bytes], Any]


def _from_text(value: Any) -> bytes:
    return str(value).encode()


def _to_text(raw: bytes) -> str:
    return raw.decode()


def _from_integer(value: Any) -> bytes:
    # Java's LongSerializer.
    return int(value).to_bytes(8, "big", signed=True)


def _to_integer(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def _from_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _to_json(raw: bytes) -> Any:
    return json.loads(raw)


_SERIALIZERS: Final[dict[str, Serializer]] = {
    "str": _from_text,
    "int": _from_integer,
    "json": _from_json,
}
_DESERIALIZERS: Final[dict[str, Deserializer]] = {
    "str": _to_text,
    "int": _to_integer,
    "json": _to_json,
}


def serializer(given: object, setting: str) -> Serializer | None:
    """The serializer that a setting names; None where bytes are taken as they are."""
    if given is None or given == "bytes":
        return None
    found = _SERIALIZERS.get(given) if isinstance(given, str) else given
    if not callable(found):
        raise InvalidSetting(
            f"{setting} must be a function or one of bytes, int, json, str, and not {given!r}"
        )
    return found


def deserializer(given: object, setting: str) -> Deserializer | None:
    """The deserializer that a setting names; None where bytes are handed out as they are."""
    if given is None or given == "bytes":
        return None
    found = _DESERIALIZERS.get(given) if isinstance(given, str) else given
    if not callable(found):
        raise InvalidSetting(
            f"{setting} must be a function or one of bytes, int, json, str, and not {given!r}"
        )
    return found
