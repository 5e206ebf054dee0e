"""Convert the JSON defaults of fields to values for Arrow columns.

Note: bytes are strings in a default, with one character per byte. The default of a union belongs to
its first branch, or to any branch since Avro 1.12.
"""

import uuid
from decimal import Context, Decimal
from typing import Any, Final

from headwater.schemas.avro.resolved_schema import (
    DECIMAL,
    UUID,
    Array,
    Enumeration,
    Field,
    Fixed,
    Map,
    Plain,
    Record,
    Schema,
    Union,
    nullable,
)
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.formats.avro.column_types import merged

_EXACT: Final = Context(prec=100)


def default_value(field: Field, what: str) -> Any:
    """Convert a default. Raises `UnsupportedSchema` if its type is wrong."""
    try:
        return _value(field.schema, field.default)
    except (ValueError, TypeError, KeyError, OverflowError):
        raise UnsupportedSchema(
            f"{what} has a default that is not of its type: {field.default!r}"
        ) from None


def _value(schema: Schema, given: Any) -> Any:
    match schema:
        case Plain():
            return _plain(schema, given)
        case Fixed():
            raw = _bytes(given)
            if len(raw) != schema.size_bytes:
                raise ValueError(given)
            return str(uuid.UUID(bytes=raw)) if schema.logical == UUID else _number(schema, raw)
        case Enumeration():
            if given not in schema.symbols:
                raise ValueError(given)
            return given
        case Array():
            return [_value(schema.items, each) for each in _of(list, given)]
        case Map():
            return [(key, _value(schema.values, each)) for key, each in _of(dict, given).items()]
        case Record():
            return {
                field.name: _value(field.schema, given.get(field.name, field.default))
                for field in schema.fields
            }
        case Union():
            return _of_union(schema, given)


def _of_union(schema: Union, given: Any) -> Any:
    is_nullable, members = nullable(schema)
    if given is None and is_nullable:
        return None
    for place, member in enumerate(members):
        try:
            found = _value(member, given)
        except (ValueError, TypeError, KeyError):
            continue
        return found if merged(members) is not None else {f"member{place}": found}
    raise ValueError(given)


def _plain(schema: Plain, given: Any) -> Any:
    match schema.kind:
        case "null":
            if given is not None:
                raise TypeError(given)
            return None
        case "boolean":
            return _of(bool, given)
        case "int" | "long":
            number = _of(int, given)
            if isinstance(number, bool):
                raise TypeError(given)
            return number * 1000 if (schema.logical or "").endswith("-millis") else number
        case "float" | "double":
            if isinstance(given, bool):
                raise TypeError(given)
            return float(given)
        case "string":
            return _of(str, given)
        case _:
            return _number(schema, _bytes(given))


def _number(schema: Plain | Fixed, raw: bytes) -> Any:
    if schema.logical != DECIMAL:
        return raw
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-schema.scale, _EXACT)


def _bytes(given: Any) -> bytes:
    return str(_of(str, given)).encode("latin-1")


def _of(kind: type, given: Any) -> Any:
    if not isinstance(given, kind):
        raise TypeError(given)
    return given
