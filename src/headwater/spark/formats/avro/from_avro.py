"""Decode Avro columns of any DataFrame, a batch of rows at a time.

    from headwater.spark import from_avro

    frame.select(from_avro("value", registry="http://127.0.0.1:8081", subject="orders-value"))

Note: the function is declared nondeterministic although it is not. Otherwise Spark would run it
once for each use of its result.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headwater.records.arrow_values import nulls
from headwater.schemas.avro.resolved_schema import parse_schema
from headwater.spark.exceptions import InvalidOption, UnparsableRecord
from headwater.spark.formats.avro.avro_options import AvroOptions, RegistryAccess
from headwater.spark.formats.avro.batch_walk import AnyArray
from headwater.spark.formats.avro.column_types import column_type, ddl, quoted
from headwater.spark.formats.avro.reader_schema import reader_schema
from headwater.spark.formats.avro.registry_cache import cached_avro_reader
from headwater.spark.formats.avro.schema_text import schema_text

if TYPE_CHECKING:
    from pyspark.sql import Column

    Values = pa.Array[Any]
else:  # Spark checks for this class, which has no type parameter at run time.
    Values = pa.Array

_MODES: Final = ("FAILFAST", "PERMISSIVE")


def from_avro(
    column: "Column | str",
    *,
    registry: str,
    settings: Mapping[str, str] | None = None,
    subject: str | None = None,
    schema: str | None = None,
    mode: str = "FAILFAST",
) -> "Column":
    """Decode a column of bytes; each value starts with the id of its schema.

    The reader's schema is `schema`, an Avro schema as text, or the latest version of `subject`. A
    value that cannot be read fails the query, or is null in mode PERMISSIVE. `settings` are client
    settings of the registry, such as `basic.auth.user.info` and `ssl.ca.location`.
    """
    if mode.upper() not in _MODES:
        raise InvalidOption(f"mode must be one of {', '.join(_MODES)}, not {mode}")
    if (schema is None) == (subject is None):
        raise InvalidOption("from_avro needs either a schema or a subject")
    access = RegistryAccess(registry, dict(settings or {}))
    options = AvroOptions(part="value", registry=access, schema=schema, subject=subject)
    text = schema_text(reader_schema(options, None))
    is_strict = mode.upper() == _MODES[0]

    def read(values: Values) -> Values:
        found = cached_avro_reader(access, text).read(_binary(values))
        if found.unreadable and is_strict:
            reason = found.unreadable[min(found.unreadable)]
            raise UnparsableRecord(f"a value cannot be read as Avro: {reason}")
        read_as: Values = found.values
        return read_as

    return _function(read, ddl(column_type(parse_schema(text))))(column)


def record_columns(
    part: str, registry: RegistryAccess, schema: str, reason: str, *, is_strict: bool
) -> "Column":
    """Return the columns of a key or value, and one with the reason if unreadable.

    If strict, an unreadable record fails the query with its partition and offset instead.
    """
    kind: Any = column_type(parse_schema(schema), part)
    fields = kind.fields if pa.types.is_struct(kind) else [pa.field(part, kind)]
    kinds = [*fields, pa.field(reason, pa.string())]
    names = [each.name for each in kinds]

    def read(
        values: Values,
        topics: Values,
        partitions: Values,
        offsets: Values,
    ) -> Values:
        found = cached_avro_reader(registry, schema).read(_binary(values))
        if found.unreadable and is_strict:
            row = min(found.unreadable)
            raise UnparsableRecord(
                f"the {part} of {topics[row]}-{partitions[row]} at offset {offsets[row]} cannot be "
                f"read as Avro: {found.unreadable[row]}"
            )
        columns = found.values.flatten() if pa.types.is_struct(kind) else [found.values]
        reasons = _reasons(found.unreadable, len(values))
        return pa.StructArray.from_arrays([*columns, reasons], names=names)

    returned = ", ".join(f"{quoted(each.name)}: {ddl(each.type)}" for each in kinds)
    function = _function(read, f"struct<{returned}>")
    return function(part, "topic", "partition", "offset")


def _function(read: Callable[..., Values], kind: str) -> "Callable[..., Column]":
    # PySpark's type stubs lack it; it exists since PySpark 4.1.
    functions: Any = importlib.import_module("pyspark.sql.functions")
    made: Callable[..., Column] = functions.arrow_udf(read, kind).asNondeterministic()
    return made


def _binary(values: AnyArray) -> AnyArray:
    return values if values.type == pa.binary() else values.cast(pa.binary())


def _reasons(unreadable: dict[int, str], count: int) -> AnyArray:
    if not unreadable:
        return nulls(count, pa.string())
    texts: Any = pa.array
    return texts([unreadable.get(row) for row in range(count)], pa.string())
