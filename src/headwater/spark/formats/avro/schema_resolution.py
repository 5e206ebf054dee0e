"""Avro's schema resolution: a writer's bytes to columns of the reader's schema.

A field that the reader does not have is skipped, one that the writer did not have gets its default,
and an int is read as a long, float or double if the reader has that type.

Note: if only some branches of a writer's union can be read, the schemas still match. Only records
with the other branches are unreadable.
"""

from typing import Any, Final

import pyarrow as pa

from headwater.schemas.avro.resolved_schema import (
    DECIMAL,
    NULL,
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
    name_of,
    nullable,
)
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.formats.avro.column_types import column_type, merged
from headwater.spark.formats.avro.field_defaults import default_value
from headwater.spark.formats.avro.leaf_nodes import (
    BooleanNode,
    DecimalNode,
    EnumerationNode,
    FixedNode,
    FloatingNode,
    Node,
    NullNode,
    NumberNode,
    SliceNode,
    UuidNode,
)
from headwater.spark.formats.avro.nested_nodes import (
    ArrayNode,
    DefaultNode,
    MapNode,
    MemberNode,
    RecordNode,
    UnionNode,
    UnreadableNode,
)

# Type promotions.
_PROMOTED: Final = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "bytes": frozenset({"string"}),
    "string": frozenset({"bytes"}),
}
_MILLIS: Final = "-millis"
_MICROS: Final = "-micros"


def resolve(writer: Schema, reader: Schema, what: str = "value") -> Node:
    """Return how to read a writer's schema; `what` is for messages.

    Raises `UnsupportedSchema` if nothing that was written could be read.
    """
    if isinstance(writer, Union):
        return _of_union(writer, reader, what)
    if isinstance(reader, Union):
        return _into_union(writer, reader, what)
    match writer, reader:
        case Plain(), Plain():
            return _plain(writer, reader, what)
        case Fixed(), Fixed():
            return _fixed(writer, reader, what)
        case Enumeration(), Enumeration():
            return _enumeration(writer, reader, what)
        case Array(), Array():
            item = resolve(writer.items, reader.items, f"{what}[]")
            return ArrayNode(column_type(reader, what), item)
        case Map(), Map():
            value = resolve(writer.values, reader.values, f"{what}[]")
            kind: Any = column_type(reader, what)
            return MapNode(kind, SliceNode(pa.string()), value)
        case Record(), Record():
            return _record(writer, reader, what)
    raise _refused(writer, reader, what)


def walked_over(writer: Schema) -> Node:
    """Return a node that skips a value that the reader does not have."""
    return resolve(writer, writer)


def _plain(writer: Plain, reader: Plain, what: str) -> Node:
    is_promoted = reader.kind in _PROMOTED.get(writer.kind, ())
    if writer.kind != reader.kind and not is_promoted:
        raise _refused(writer, reader, what)
    kind: Any = column_type(reader, what)
    if reader.logical == DECIMAL:
        if writer.logical == DECIMAL and writer.scale != reader.scale:
            raise _refused(writer, reader, what)
        return DecimalNode(kind, None)
    match writer.kind:
        case "null":
            return NullNode(kind)
        case "boolean":
            return BooleanNode()
        case "int" | "long":
            factor = _factor(writer.logical, reader.logical)
            return NumberNode(kind, is_int=writer.kind == "int", factor=factor)
        case "float" | "double":
            return FloatingNode(kind, is_float=writer.kind == "float")
        case _:
            return SliceNode(kind)


def _factor(writer: str | None, reader: str | None) -> int:
    """Return the factor to microseconds, by the writer's logical type if it has one."""
    if reader is None or not reader.endswith((_MILLIS, _MICROS)):
        return 1
    unit = writer if writer is not None and writer.endswith((_MILLIS, _MICROS)) else reader
    return 1000 if unit.endswith(_MILLIS) else 1


def _fixed(writer: Fixed, reader: Fixed, what: str) -> Node:
    if writer.size_bytes != reader.size_bytes or not _same_name(writer, reader):
        raise _refused(writer, reader, what)
    if reader.logical == DECIMAL:
        if writer.logical == DECIMAL and writer.scale != reader.scale:
            raise _refused(writer, reader, what)
        kind: Any = column_type(reader, what)
        return DecimalNode(kind, reader.size_bytes)
    return UuidNode() if reader.logical == UUID else FixedNode(reader.size_bytes)


def _enumeration(writer: Enumeration, reader: Enumeration, what: str) -> Node:
    if not _same_name(writer, reader):
        raise _refused(writer, reader, what)
    words = tuple(
        symbol if symbol in reader.symbols else reader.default for symbol in writer.symbols
    )
    return EnumerationNode(words)


def _record(writer: Record, reader: Record, what: str) -> Node:
    if not _same_name(writer, reader):
        raise _refused(writer, reader, what)
    kind: Any = column_type(reader, what)
    left = dict(enumerate(reader.fields))
    fields: list[tuple[str, int | None, Node]] = []
    for field in writer.fields:
        place = _place_of(field, left)
        if place is None:
            fields.append((field.name, None, walked_over(field.schema)))
        else:
            wanted = left.pop(place)
            node = resolve(field.schema, wanted.schema, f"{what}.{wanted.name}")
            fields.append((wanted.name, place, node))
    for place, missing in left.items():
        fields.append((missing.name, place, _default(missing, writer, what)))
    return RecordNode(kind, fields)


def _place_of(field: Field, left: dict[int, Field]) -> int | None:
    by_name = [place for place, each in left.items() if each.name == field.name]
    by_alias = [place for place, each in left.items() if field.name in each.aliases]
    return next(iter(by_name + by_alias), None)


def _default(field: Field, writer: Record, what: str) -> Node:
    if not field.has_default:
        raise UnsupportedSchema(
            f"{what}.{field.name} is not in the writer's schema {writer.name}, and has no default"
        )
    place = f"{what}.{field.name}"
    return DefaultNode(column_type(field.schema, place), default_value(field, place))


def _of_union(writer: Union, reader: Schema, what: str) -> Node:
    kind = column_type(reader, what)
    branches: list[Node] = []
    reasons: list[str] = []
    for each in writer.branches:
        try:
            branches.append(resolve(each, reader, what))
        except UnsupportedSchema as error:
            branches.append(UnreadableNode(kind, str(error)))
            reasons.append(str(error))
    if reasons and len(reasons) == len(branches):
        raise UnsupportedSchema(reasons[0])
    return UnionNode(kind, branches)


def _into_union(writer: Schema, reader: Union, what: str) -> Node:
    """Return the first branch of the writer's type, else the first compatible one."""
    kind: Any = column_type(reader, what)
    is_nullable, members = nullable(reader)
    if writer == NULL:
        if not is_nullable:
            raise _refused(writer, reader, what)
        return NullNode(kind)
    whole = merged(members)
    if whole is not None:
        return resolve(writer, whole, what)
    order = sorted(range(len(members)), key=lambda place: not _alike(writer, members[place]))
    for place in order:
        try:
            return MemberNode(kind, place, resolve(writer, members[place], what))
        except UnsupportedSchema:
            continue
    raise _refused(writer, reader, what)


def _alike(writer: Schema, reader: Schema) -> bool:
    if isinstance(writer, Plain) and isinstance(reader, Plain):
        return writer.kind == reader.kind
    return type(writer) is type(reader) and name_of(writer) == name_of(reader)


def _same_name(writer: Record | Fixed | Enumeration, reader: Record | Fixed | Enumeration) -> bool:
    """Compare names without namespaces, as Avro's specification does."""
    names = {name.rpartition(".")[2] for name in (reader.name, *reader.aliases)}
    return writer.name.rpartition(".")[2] in names


def _refused(writer: Schema, reader: Schema, what: str) -> UnsupportedSchema:
    return UnsupportedSchema(f"{what} is written as {name_of(writer)}, not as {name_of(reader)}")
