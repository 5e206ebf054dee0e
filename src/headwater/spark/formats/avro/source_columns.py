"""Determine the columns of a source with a registry, and their reader's schema.

The reader's schema is looked up once, when Spark asks for the columns, and travels with them as
metadata. A second lookup could find a newer version, which would not match Spark's types.
"""

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from headwater.schemas.avro.resolved_schema import parse_schema
from headwater.spark.formats.arrow_types import arrow_type
from headwater.spark.formats.avro.avro_options import AvroOptions
from headwater.spark.formats.avro.column_types import column_type
from headwater.spark.formats.avro.reader_schema import reader_schema
from headwater.spark.formats.avro.schema_text import cut, schema_text
from headwater.spark.formats.protobuf.protobuf_writer import column_kind
from headwater.spark.formats.protobuf.reader_schema import PROTOBUF_METADATA, named_message
from headwater.spark.formats.value_formats import ValueFormat

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
    avro: "Mapping[str, AvroOptions]",
    topic: str | None,
    *,
    has_headers: bool,
    formats: "Mapping[str, ValueFormat]" = MappingProxyType({}),
) -> "StructType":
    """Return the columns of a record; some have the types of registered schemas."""
    texts: dict[str, str] = {}
    kinds = dict(_COLUMNS)
    for part, options in avro.items():
        if formats.get(part) is ValueFormat.PROTOBUF:
            message = named_message(options, topic)
            texts[part] = message.as_text()
            kinds[part] = column_kind(message.parsed(), message.message)
        else:
            texts[part] = schema_text(reader_schema(options, topic))
            kinds[part] = column_type(parse_schema(texts[part]), part)
    if has_headers:
        kinds["headers"] = pa.list_(pa.field("element", _HEADER))
    found = from_arrow_schema(pa.schema(kinds), prefer_timestamp_ntz=True)
    for field in found.fields:
        if field.name in texts:
            is_protobuf = formats.get(field.name) is ValueFormat.PROTOBUF
            field.metadata = {PROTOBUF_METADATA if is_protobuf else _METADATA: texts[field.name]}
    return found


def column_schema(field: "StructField", options: AvroOptions, topic: str | None) -> str:
    """Return the reader's schema of a column, reduced to the user's type if given."""
    schema = (field.metadata or {}).get(_METADATA)
    if isinstance(schema, str):
        return schema
    kind = arrow_type(field.dataType, field.name)
    return schema_text(cut(reader_schema(options, topic), kind, field.name))
