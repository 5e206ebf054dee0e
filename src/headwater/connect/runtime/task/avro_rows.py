"""Rows as Avro values and back, as Confluent's AvroConverter has them.

A source derives the schema from its columns and registers it as the subject `TOPIC-value`, again
when the columns change. A sink reads values with the subject's latest schema.
"""

import re
from typing import Any, Final

import pyarrow as pa

from headwater.connect.runtime.task.json_rows import (
    MalformedValue,
    key_column,
    keyed_rows,
    whole,
)
from headwater.schemas.avro.resolved_schema import (
    DECIMAL,
    NULL,
    Array,
    Field,
    Plain,
    Record,
    Schema,
    Union,
    parse_schema,
)
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.avro.avro_options import AvroOptions
from headwater.spark.formats.avro.avro_reader import AvroReader
from headwater.spark.formats.avro.avro_writer import avro_writer
from headwater.spark.formats.avro.column_types import column_type
from headwater.spark.formats.avro.registry_cache import RetryingRegistry
from headwater.spark.formats.avro.sink_schema import column_target

# An Arrow array of any type; the stubs would distinguish arrays, chunked arrays and scalars.
AnyArray = Any

_PLAIN: "Final[dict[pa.DataType, Plain]]" = {
    pa.bool_(): Plain(kind="boolean"),
    pa.int8(): Plain(kind="int"),
    pa.int16(): Plain(kind="int"),
    pa.int32(): Plain(kind="int"),
    pa.int64(): Plain(kind="long"),
    pa.float32(): Plain(kind="float"),
    pa.float64(): Plain(kind="double"),
    pa.string(): Plain(kind="string"),
    pa.binary(): Plain(kind="bytes"),
    pa.date32(): Plain(kind="int", logical="date"),
}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class AvroRows:
    """Encodes and decodes the values of a connector."""

    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._registry = RetryingRegistry(options.registry)
        self._writers: dict[tuple[str, pa.DataType], Any] = {}

    def close(self) -> None:
        self._registry.close()

    def write(self, topic: str, batch: pa.RecordBatch, key: str | None) -> pa.Table:
        """The records of rows. Raises `UnsupportedSchema` or the registry's error."""
        names = batch.schema.names
        fields = [_avro_column(batch.column(name)) for name in names]
        rows = pa.StructArray.from_arrays(fields, names=names)
        place = (topic, rows.type)
        if place not in self._writers:
            self._writers[place] = self._writer(topic, rows.type)
        columns = {"value": self._writers[place](rows)}
        if key is not None:
            columns["key"] = key_column(batch, key)
        return pa.table(columns)

    def _writer(self, topic: str, kind: pa.DataType) -> Any:
        target = column_target(
            kind,
            lambda name: avro_schema(kind, name, "value"),
            self._options,
            topic,
            self._registry,
        )
        return avro_writer(parse_schema(target.schema), kind, target.schema_id)

    def reader(self, topic: str) -> "AvroRowReader":
        """A reader with the latest schema of a topic. Raises `InvalidOption` without one."""
        subject = self._options.subject_of(topic, None)
        latest = self._registry.latest(subject)
        if latest is None:
            raise InvalidOption(
                f"the registry has no subject {subject}, so the columns are unknown"
            )
        schema = self._registry.parsed(latest)
        if not isinstance(schema, Record):
            raise InvalidOption(f"the schema of {subject} is not a record, so it has no columns")
        return AvroRowReader(schema, AvroReader(schema, self._registry.by_id))


class AvroRowReader:
    """Decodes values as the columns of one schema."""

    def __init__(self, schema: Record, reader: AvroReader) -> None:
        kind: Any = column_type(schema)
        self.columns = pa.schema(list(kind))
        self._reader = reader

    def read(self, records: pa.Table, key: str | None) -> pa.RecordBatch:
        """The rows of records. Raises `MalformedValue` for the first that is no row."""
        found = self._reader.read(whole(records.column("value")))
        if found.unreadable:
            row = min(found.unreadable)
            raise MalformedValue(row, found.unreadable[row])
        return keyed_rows(found.values, records, key)


def avro_schema(kind: pa.DataType, name: str, what: str) -> Schema:
    """Derive the schema of an Arrow type; all columns may be null, their default."""
    if isinstance(kind, pa.StructType):
        fields = []
        for each in kind:
            if _NAME.fullmatch(each.name) is None:
                raise UnsupportedSchema(
                    f"the column {each.name!r} has a name that Avro does not allow: use "
                    "letters, digits and _"
                )
            inner = avro_schema(each.type, f"{name}.{each.name}", f"{what}.{each.name}")
            fields.append(Field(name=each.name, schema=Union((NULL, inner)), has_default=True))
        return Record(name=name, fields=tuple(fields))
    if isinstance(kind, pa.ListType):
        items = avro_schema(kind.value_type, f"{name}.element", f"{what}[]")
        return Array(Union((NULL, items)))
    if isinstance(kind, pa.Decimal128Type):
        return Plain(kind="bytes", logical=DECIMAL, precision=kind.precision, scale=kind.scale)
    if isinstance(kind, pa.TimestampType):
        logical = "timestamp-micros" if kind.tz is not None else "local-timestamp-micros"
        return Plain(kind="long", logical=logical)
    if kind not in _PLAIN:
        raise UnsupportedSchema(f"{what} is {kind}, for which there is no type in Avro")
    return _PLAIN[kind]


def _avro_column(values: AnyArray) -> AnyArray:
    """Convert to a type that has one in Avro, as far as there is one."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _avro_column(values.dictionary_decode())
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("us", tz=None if kind.tz is None else "UTC"))
    if pa.types.is_large_string(kind) or pa.types.is_null(kind) or pa.types.is_time(kind):
        return values.cast(pa.string())
    if pa.types.is_large_binary(kind):
        return values.cast(pa.binary())
    if pa.types.is_date64(kind):
        return values.cast(pa.date32())
    return values
