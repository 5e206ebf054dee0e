"""Map Protobuf messages to Spark's types, and parsed messages to columns.

    bool                   boolean        message               struct
    int32, sint32, ...     int            repeated              array
    uint32, fixed32        bigint         map                   map
    int64, sint64, ...     bigint         enum                  string, its name
    uint64, fixed64        decimal(20,0)  google.protobuf:
    float, double          float, double    Timestamp           timestamp
    string                 string           wrappers            the wrapped type
    bytes                  binary           Struct and Value    string, as JSON

A field that knows whether it is set (`optional`, in a oneof, a message) is null if it is not; other
fields have their default. An enum's number without a name is written as a number. Fields that the
reader's schema does not have are dropped.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from headwater.schemas.errors import UnsupportedSchema

AnyArray = Any
Messages = list[Any]
"""Parsed messages, and None where there is none."""

_TYPES: Final = {
    "BOOL": pa.bool_(),
    "BYTES": pa.binary(),
    "DOUBLE": pa.float64(),
    "ENUM": pa.string(),
    "FIXED32": pa.int64(),
    "FIXED64": pa.decimal128(20, 0),
    "FLOAT": pa.float32(),
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "SFIXED32": pa.int32(),
    "SFIXED64": pa.int64(),
    "SINT32": pa.int32(),
    "SINT64": pa.int64(),
    "STRING": pa.string(),
    "UINT32": pa.int64(),
    "UINT64": pa.decimal128(20, 0),
}
TIMESTAMP: Final = "google.protobuf.Timestamp"
TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")
WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in (
        *("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64"),
    )
)
JSON_TYPES: Final = frozenset(
    f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue")
)
_DEPTH_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Column:
    """A type of Spark, and how a column of it is made from values of Protobuf."""

    kind: Any
    build: Callable[[list[Any]], AnyArray]


def message_column(descriptor: Any, what: str = "value", path: tuple[str, ...] = ()) -> Column:
    """The column of a message; `UnsupportedSchema` if Spark has no type for it."""
    name = descriptor.full_name
    if name == TIMESTAMP:
        return Column(TIMESTAMP_TYPE, _timestamps)
    if name in JSON_TYPES:
        return Column(pa.string(), _json)
    if name in WRAPPERS:
        inner = _singular(descriptor.fields_by_name["value"], what, path)
        return Column(inner.kind, lambda rows: inner.build([_value(each) for each in rows]))
    if name in path or len(path) > _DEPTH_MAX:
        raise UnsupportedSchema(
            f"{what} is a {name} inside of itself, for which Spark has no type: read it with a "
            "schema that leaves it out"
        )
    return _struct(descriptor, what, (*path, name))


def _struct(descriptor: Any, what: str, path: tuple[str, ...]) -> Column:
    if not descriptor.fields:
        raise UnsupportedSchema(f"{what} is the message {descriptor.name}, which has no fields")
    lower = [field.name.lower() for field in descriptor.fields]
    if len(set(lower)) < len(lower):
        raise UnsupportedSchema(
            f"{what} has fields whose names differ in upper and lower case only, which Spark does "
            f"not tell apart: {', '.join(field.name for field in descriptor.fields)}"
        )
    fields = [(field, _field(field, f"{what}.{field.name}", path)) for field in descriptor.fields]
    kind = pa.struct([pa.field(field.name, column.kind) for field, column in fields])
    names = [field.name for field, _ in fields]

    def build(rows: Messages) -> AnyArray:
        columns = [column.build(_values(rows, field)) for field, column in fields]
        missing: Any = pa.array([each is None for each in rows], pa.bool_())
        return pa.StructArray.from_arrays(columns, names=names, mask=missing)

    return Column(kind, build)


def _values(rows: Messages, field: Any) -> list[Any]:
    """The values of a field; None where it is not set."""
    name = field.name
    if field.has_presence:
        return [
            None if each is None or not each.HasField(name) else getattr(each, name)
            for each in rows
        ]
    return [None if each is None else getattr(each, name) for each in rows]


def _value(message: Any) -> Any:
    return None if message is None else message.value


def _field(field: Any, what: str, path: tuple[str, ...]) -> Column:
    if not field.is_repeated:
        return _singular(field, what, path)
    if is_map(field):
        entry = field.message_type.fields_by_name
        return _map(
            _singular(entry["key"], what, path), _singular(entry["value"], f"{what}[]", path)
        )
    return _list(_singular(field, f"{what}[]", path))


def is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _singular(field: Any, what: str, path: tuple[str, ...]) -> Column:
    if field.message_type is not None:
        return message_column(field.message_type, what, path)
    kind = scalar_type(field)
    if field.enum_type is not None:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return Column(kind, lambda rows: _array([_enum_name(names, each) for each in rows], kind))
    return Column(kind, lambda rows: _array(rows, kind))


def scalar_type(field: Any) -> Any:
    """Spark's type of a field that is not a message."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return _TYPES[FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_")]


def _enum_name(names: dict[int, str], number: int | None) -> str | None:
    return None if number is None else names.get(number, str(number))


def _array(values: list[Any], kind: Any) -> AnyArray:
    make: Any = pa.array
    return make(values, kind)


def _list(item: Column) -> Column:
    kind = pa.list_(pa.field("element", item.kind))

    def build(rows: list[Any]) -> AnyArray:
        offsets, items = _flattened(rows, list)
        return pa.ListArray.from_arrays(offsets, item.build(items), type=kind)

    return Column(kind, build)


def _map(key: Column, value: Column) -> Column:
    kind = pa.map_(key.kind, value.kind)

    def build(rows: list[Any]) -> AnyArray:
        offsets, entries = _flattened(rows, _entries)
        keys = key.build([each[0] for each in entries])
        values = value.build([each[1] for each in entries])
        make: Any = pa.MapArray.from_arrays
        return make(offsets, keys, values, type=kind)

    return Column(kind, build)


def _entries(container: Any) -> list[tuple[Any, Any]]:
    return [(key, container[key]) for key in container]


def _flattened(
    rows: list[Any], items_of: Callable[[Any], Iterable[Any]]
) -> tuple[AnyArray, list[Any]]:
    """Offsets, null for a missing row, and the items of all rows."""
    items: list[Any] = []
    offsets: list[int | None] = []
    for each in rows:
        offsets.append(None if each is None else len(items))
        if each is not None:
            items += items_of(each)
    offsets.append(len(items))
    return _array(offsets, pa.int32()), items


def _timestamps(rows: Messages) -> AnyArray:
    micros = [
        None if each is None else each.seconds * 1_000_000 + each.nanos // 1_000 for each in rows
    ]
    return _array(micros, pa.int64()).cast(TIMESTAMP_TYPE)


def _json(rows: Messages) -> AnyArray:
    from google.protobuf import json_format

    texts = [
        None if each is None else json_format.MessageToJson(each, indent=None) for each in rows
    ]
    return _array(texts, pa.string())
