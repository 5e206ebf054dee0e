"""Map an Avro schema to Spark's type, like Spark's own Avro reader.

    null            void                         record    struct
    boolean         boolean                      array     array
    int, long       int, bigint                  map       map of string
    float, double   float, double                enum      string
    bytes, fixed    binary, or decimal           string    string
    date            date                         uuid      string
    timestamp-*     timestamp                    local-timestamp-*   timestamp_ntz

A union with null has the type of its other branch, since all columns are nullable; `[int, long]` is
a bigint and `[float, double]` a double. Any other union is a struct with a column per branch,
`member0`, `member1`, of which one is not null.
"""

from typing import Any, Final

import pyarrow as pa

from headwater.schemas.avro.resolved_schema import (
    UUID,
    Array,
    Enumeration,
    Fixed,
    Map,
    Plain,
    Record,
    Schema,
    Union,
    nullable,
)
from headwater.schemas.errors import UnsupportedSchema

_PRECISION_MAX: Final = 38
_PLAIN: "Final[dict[str, pa.DataType]]" = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: "Final[dict[str, pa.DataType]]" = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    UUID: pa.string(),
}
_WORDS: Final[dict[Any, str]] = {
    pa.null(): "void",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.binary(): "binary",
    pa.string(): "string",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
_MERGED: Final = (
    (frozenset({Plain(kind="int"), Plain(kind="long")}), Plain(kind="long")),
    (frozenset({Plain(kind="float"), Plain(kind="double")}), Plain(kind="double")),
)


def merged(branches: tuple[Schema, ...]) -> Schema | None:
    """Return the common schema of a union's branches (without null), or None."""
    if len(branches) == 1:
        return branches[0]
    for kinds, whole in _MERGED:
        if frozenset(branches) == kinds:
            return whole
    return None


def column_type(schema: Schema, what: str = "value") -> pa.DataType:
    """Return Spark's type. Raises `UnsupportedSchema`; `what` is for messages."""
    match schema:
        case Plain(logical="decimal") | Fixed(logical="decimal"):
            if schema.precision > _PRECISION_MAX:
                raise UnsupportedSchema(
                    f"{what} is a decimal of {schema.precision} digits, and Spark has "
                    f"{_PRECISION_MAX}: leave it out of the schema that you read with"
                )
            return pa.decimal128(schema.precision, schema.scale)
        case Plain():
            return _LOGICAL[schema.logical] if schema.logical else _PLAIN[schema.kind]
        case Fixed():
            return pa.string() if schema.logical == UUID else pa.binary()
        case Enumeration():
            return pa.string()
        case Array():
            return pa.list_(pa.field("element", column_type(schema.items, f"{what}[]")))
        case Map():
            return pa.map_(pa.string(), column_type(schema.values, f"{what}[]"))
        case Record():
            return _struct(schema, what)
        case Union():
            return _union(schema, what)


def ddl(kind: Any) -> str:
    """Return a type in Spark's SQL syntax."""
    if pa.types.is_struct(kind):
        inner = ", ".join(f"{quoted(field.name)}: {ddl(field.type)}" for field in kind.fields)
        return f"struct<{inner}>"
    if pa.types.is_list(kind):
        return f"array<{ddl(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{ddl(kind.key_type)}, {ddl(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _WORDS[kind]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _struct(schema: Record, what: str) -> pa.DataType:
    if not schema.fields:
        raise UnsupportedSchema(f"{what} is the record {schema.name}, which has no fields")
    lower = [field.name.lower() for field in schema.fields]
    if len(set(lower)) < len(lower):
        raise UnsupportedSchema(
            f"{what} has fields whose names differ in upper and lower case only, which Spark does "
            f"not distinguish: {', '.join(field.name for field in schema.fields)}"
        )
    return pa.struct(
        [
            pa.field(field.name, column_type(field.schema, f"{what}.{field.name}"))
            for field in schema.fields
        ]
    )


def _union(schema: Union, what: str) -> pa.DataType:
    _, members = nullable(schema)
    if not members:
        return pa.null()
    whole = merged(members)
    if whole is not None:
        return column_type(whole, what)
    return pa.struct(
        [
            pa.field(f"member{number}", column_type(member, f"{what}.member{number}"))
            for number, member in enumerate(members)
        ]
    )
