"""Spark's types in Arrow."""

import pyarrow as pa
import pytest
from pyspark.sql import types

from headwater.spark.exceptions import WrongColumns
from headwater.spark.formats.arrow_types import arrow_schema, arrow_type


def test_a_timestamp_is_an_instant_whatever_zone_a_session_has() -> None:
    schema = types.StructType([types.StructField("at", types.TimestampType(), nullable=False)])
    assert arrow_schema(schema) == pa.schema([("at", pa.timestamp("us", tz="UTC"))])


def test_nested_column_is_named_in_the_error() -> None:
    inner = types.StructType([types.StructField("n", types.DecimalType(9, 2))])
    kind = types.MapType(types.StringType(), types.ArrayType(inner))
    expected = pa.struct([("n", pa.decimal128(9, 2))])
    assert arrow_type(kind, "x") == pa.map_(pa.string(), pa.list_(pa.field("element", expected)))


def test_unsupported_type_is_reported_with_its_column() -> None:
    kind = types.ArrayType(types.DayTimeIntervalType())
    with pytest.raises(WrongColumns, match=r"value\[\] is interval day to second"):
        arrow_type(kind, "value")
