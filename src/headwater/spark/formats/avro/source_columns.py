"""Determine the columns of an Avro source and the schema that they are read with.

The reader's schema is looked up once, when Spark asks for the columns, and travels with them as
metadata. A second lookup could find a newer version, which would not match Spark's types.
"""

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from headwater.schemas.avro.resolved_schema import parse_schema
from headwater.spark.formats.arrow_types import arrow_type
from headwater.spark.formats.avro.avro_options import AvroOptions
from headwater.spark.formats.avro.column_types import column_type
from headwater.spark.formats.avro.reader_schema import reader_schema
from headwater.spark.formats.avro.schema_text import cut, schema_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructField, StructType

_METADATA: Final = "headwater.avro"
_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_COLUMNS: "Final[dict[str, pa.DataType]]" = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
}


def columns_of(
    avro: "Mapping[str, AvroOptions]", topic: str | None, *, has_headers: bool
) -> "StructType":
    """Return the columns of a record; Avro columns have the types of their schemas."""
    texts = {part: schema_text(reader_schema(options, topic)) for part, options in avro.items()}
    kinds = {
        **_COLUMNS,
        **{part: column_type(parse_schema(text), part) for part, text in texts.items()},
    }
    if has_headers:
        kinds["headers"] = pa.list_(pa.field("element", _HEADER))
    found = from_arrow_schema(pa.schema(kinds), prefer_timestamp_ntz=True)
    for field in found.fields:
        if field.name in texts:
            field.metadata = {_METADATA: texts[field.name]}
    return found


def column_schema(field: "StructField", options: AvroOptions, topic: str | None) -> str:
    """Return the reader's schema of a column, reduced to the user's type if given."""
    schema = (field.metadata or {}).get(_METADATA)
    if isinstance(schema, str):
        return schema
    kind = arrow_type(field.dataType, field.name)
    return schema_text(cut(reader_schema(options, topic), kind, field.name))
