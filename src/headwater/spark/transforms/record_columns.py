"""Columns of records as a transform receives and returns them.

Every transform returns expressions, which Spark evaluates for whole batches. A record that Kafka
Connect would fail on is not an exception here but a reason in a column, so that the caller decides
between stopping, skipping and a dead-letter topic.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructType

from headwater.spark.exceptions import InvalidOption
from headwater.spark.transforms.transform_config import TransformSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The columns that a transform replaces; every other column stays."""

    columns: "Mapping[str, Column]" = field(default_factory=dict)
    # Why a record cannot be transformed; null for a record that can.
    failure: "Column | None" = None
    drops: bool = False


def kind_of(frame: "DataFrame", name: str) -> DataType:
    """Return the type of a column."""
    return frame.schema[name].dataType


def need_column(frame: "DataFrame", name: str, spec: TransformSpec) -> "Column":
    """Return a column of the records; raise if records here do not have it."""
    if name not in frame.columns:
        raise InvalidOption(f"{spec}: records have no {name} here")
    return f.col(name)


def part_of(frame: "DataFrame", spec: TransformSpec) -> str:
    """Return the name of the column that a transform works on."""
    assert spec.part is not None, "refused when the settings were read"
    need_column(frame, spec.part, spec)
    return spec.part


def struct_of(frame: "DataFrame", part: str, spec: TransformSpec) -> StructType:
    """Return the fields of a key or value; raise if it is not decoded."""
    need_column(frame, part, spec)
    kind = kind_of(frame, part)
    if not isinstance(kind, StructType):
        raise InvalidOption(
            f"{spec} needs a {part} with fields, but it is of type {kind.simpleString()}"
        )
    return kind


def field_of(part: str, name: str) -> "Column":
    return f.col(part).getField(name)


def rebuilt(part: str, fields: "Mapping[str, Column]", spec: TransformSpec) -> "Column":
    """Return the struct with these fields, null where it was null."""
    if not fields:
        raise InvalidOption(f"{spec} leaves no field in the {part}")
    whole = f.struct(*(column.alias(name) for name, column in fields.items()))
    return f.when(f.col(part).isNotNull(), whole)


def plain_fields(part: str, kind: StructType) -> "dict[str, Column]":
    return {each.name: field_of(part, each.name) for each in kind.fields}


def failing(condition: "Column", *reason: "Column | str") -> "Column":
    """Return the reason where a condition is true."""
    parts = [f.lit(each) if isinstance(each, str) else each for each in reason]
    return f.when(condition, f.concat(*parts))
