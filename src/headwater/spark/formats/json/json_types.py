"""Map Spark's types that JSON can hold to Arrow types.

Note: Spark compares the types of Arrow batches including the names in them; the items of a list
must be named `element`.
"""

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headwater.spark.exceptions import WrongColumns

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_PLAIN: "Final[dict[str, pa.DataType]]" = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def json_type(kind: "DataType", what: str) -> pa.DataType:
    """Return the Arrow type. Raises `WrongColumns` if JSON cannot hold the type."""
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        return pa.struct(
            [
                pa.field(field.name, json_type(field.dataType, f"{what}.{field.name}"))
                for field in kind.fields
            ]
        )
    if isinstance(kind, types.ArrayType):
        return pa.list_(pa.field("element", json_type(kind.elementType, f"{what}[]")))
    if isinstance(kind, types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    found = _PLAIN.get(kind.typeName())
    if found is None:
        raise WrongColumns(
            f"{what} cannot be {kind.simpleString()} in JSON; read it as string, then use from_json"
        )
    return found


def check_nullable(kind: "DataType", what: str) -> None:
    """Raise `WrongColumns` if a reader's schema has a column that is not nullable."""
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        for field in kind.fields:
            if not field.nullable:
                raise WrongColumns(f"{what}.{field.name} cannot be NOT NULL: a record may lack it")
            check_nullable(field.dataType, f"{what}.{field.name}")
    elif isinstance(kind, types.ArrayType):
        if not kind.containsNull:
            raise WrongColumns(f"{what}[] cannot be NOT NULL: a record may have null there")
        check_nullable(kind.elementType, f"{what}[]")
