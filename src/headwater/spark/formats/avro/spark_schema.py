"""Derive an Avro schema from the Spark types of a frame's columns.

    tinyint, smallint, int   int              decimal          bytes, decimal
    bigint                   long             binary           bytes
    timestamp                timestamp-micros timestamp_ntz    local-timestamp-micros
    struct                   record           map of string    map

A nullable column is a union with null and has the default null, so that it can be removed later and
older rows can be read with it.
"""

import re
from typing import TYPE_CHECKING, Final

from headwater.schemas.avro.resolved_schema import (
    DECIMAL,
    NULL,
    Array,
    Field,
    Map,
    Plain,
    Record,
    Schema,
    Union,
)
from headwater.schemas.errors import UnsupportedSchema

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_PLAIN: Final = {
    "boolean": Plain(kind="boolean"),
    "byte": Plain(kind="int"),
    "short": Plain(kind="int"),
    "integer": Plain(kind="int"),
    "long": Plain(kind="long"),
    "float": Plain(kind="float"),
    "double": Plain(kind="double"),
    "string": Plain(kind="string"),
    "binary": Plain(kind="bytes"),
    "date": Plain(kind="int", logical="date"),
    "timestamp": Plain(kind="long", logical="timestamp-micros"),
    "timestamp_ntz": Plain(kind="long", logical="local-timestamp-micros"),
    "void": NULL,
}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NOT_OF_A_NAME: Final = re.compile(r"[^A-Za-z0-9_]+", re.ASCII)


def schema_of(kind: "DataType", name: str, what: str = "value") -> Schema:
    """Derive the schema of a type. Raises `UnsupportedSchema`; `name` is for structs."""
    from pyspark.sql import types

    match kind:
        case types.StructType():
            return _record(kind, name, what)
        case types.ArrayType():
            items = schema_of(kind.elementType, f"{name}.element", f"{what}[]")
            return Array(_with_null(items, is_nullable=kind.containsNull))
        case types.MapType():
            if not isinstance(kind.keyType, types.StringType):
                raise UnsupportedSchema(
                    f"{what} is a map whose keys are {kind.keyType.simpleString()}; Avro has maps "
                    "of texts only"
                )
            values = schema_of(kind.valueType, f"{name}.value", f"{what}[]")
            return Map(_with_null(values, is_nullable=kind.valueContainsNull))
        case types.DecimalType():
            return Plain(kind="bytes", logical=DECIMAL, precision=kind.precision, scale=kind.scale)
        case _ if kind.typeName() in _PLAIN:
            return _PLAIN[kind.typeName()]
        case _ if isinstance(kind, types.StringType):
            return _PLAIN["string"]
        case _:
            raise UnsupportedSchema(f"{what} is {kind.simpleString()}, for which Avro has no type")


def record_name(topic: str | None, *, is_key: bool) -> str:
    """Return the record name of a topic: `BigOrders`, `BigOrdersKey` for `big-orders`."""
    words = [word for word in _NOT_OF_A_NAME.split(topic or "row") if word]
    name = "".join(word[0].upper() + word[1:] for word in words) or "Row"
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}Key" if is_key else name


def _record(kind: "StructType", name: str, what: str) -> Schema:
    fields = []
    for each in kind.fields:
        if _NAME.fullmatch(each.name) is None:
            raise UnsupportedSchema(
                f"the column {each.name!r} has a name that Avro does not allow: use "
                "letters, digits and _"
            )
        inner = schema_of(each.dataType, f"{name}.{each.name}", f"{what}.{each.name}")
        schema = _with_null(inner, is_nullable=each.nullable)
        fields.append(Field(name=each.name, schema=schema, has_default=each.nullable))
    return Record(name=name, fields=tuple(fields))


def _with_null(schema: Schema, *, is_nullable: bool) -> Schema:
    return Union((NULL, schema)) if is_nullable and schema != NULL else schema
