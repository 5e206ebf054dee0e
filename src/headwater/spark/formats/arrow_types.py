"""Map Spark's types to the Arrow types in which Spark exchanges rows.

PySpark has such a function, but it is not public and its parameters change between versions.
Timestamps are always in UTC here.
"""

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headwater.spark.exceptions import WrongColumns

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_PLAIN: "Final[dict[str, pa.DataType]]" = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_schema(schema: "StructType") -> pa.Schema:
    """Map a schema. Raises `WrongColumns` for a type that cannot be exchanged."""
    return pa.schema(
        [pa.field(each.name, arrow_type(each.dataType, each.name)) for each in schema.fields]
    )


def arrow_type(kind: "DataType", what: str) -> pa.DataType:
    """Map a type; `what` names the column in error messages."""
    from pyspark.sql import types

    match kind:
        case types.StructType():
            return pa.struct(
                [
                    pa.field(each.name, arrow_type(each.dataType, f"{what}.{each.name}"))
                    for each in kind.fields
                ]
            )
        case types.ArrayType():
            return pa.list_(pa.field("element", arrow_type(kind.elementType, f"{what}[]")))
        case types.MapType():
            key = arrow_type(kind.keyType, f"{what}[]")
            return pa.map_(key, arrow_type(kind.valueType, f"{what}[]"))
        case types.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case types.StringType():
            return pa.string()
        case _ if kind.typeName() in _PLAIN:
            return _PLAIN[kind.typeName()]
        case _:
            raise WrongColumns(f"{what} is {kind.simpleString()}, which cannot be read or written")
