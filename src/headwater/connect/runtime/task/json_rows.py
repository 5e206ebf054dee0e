"""Rows as JSON values and back, as `headwater connect import` and `export` do it."""

import base64
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from headwater.connect.postgresql_connector import DELETED
from headwater.pipelines.spec.ddl import DdlField, read_schema
from headwater.spark.exceptions import WrongColumns
from headwater.spark.formats.json.json_reader import NotJson, read_json
from headwater.spark.formats.json.json_writer import write_json

# An Arrow array of any type; the stubs would distinguish arrays, chunked arrays and scalars.
AnyArray = Any
compute: Any = pyarrow.compute

_PLAIN: "Final[dict[str, pa.DataType]]" = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


class MalformedValue(Exception):
    """A value is not a JSON object with the columns; `row` counts in the batch."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


def schema_of(text: str) -> pa.Schema:
    """Arrow columns of a DDL schema. Raises `WrongColumns` if JSON has no such type."""
    return pa.schema([pa.field(each.name, _type_of(each)) for each in read_schema(text)])


def _type_of(field: DdlField) -> pa.DataType:
    kind = field.kind
    if kind.startswith("struct<"):
        return pa.struct([pa.field(each.name, _type_of(each)) for each in field.fields])
    if kind.startswith("array<"):
        (item,) = read_schema(f"element {kind.removeprefix('array<').removesuffix('>')}")
        return pa.list_(pa.field("element", _type_of(item)))
    if kind.startswith("decimal("):
        digits, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(digits), int(scale))
    found = _PLAIN.get(kind)
    if found is None:
        raise WrongColumns(f"{field.name} cannot be {kind} in JSON")
    return found


def write_rows(batch: pa.RecordBatch, key: str | None) -> pa.Table:
    """The records of rows: `value` is JSON, `key` a column as text."""
    fields = [_writable(batch.column(name), name) for name in batch.schema.names]
    rows = pa.StructArray.from_arrays(fields, names=batch.schema.names)
    columns: dict[str, AnyArray] = {"value": write_json(rows, with_nulls=True)}
    if key is not None:
        columns["key"] = key_column(batch, key)
    return pa.table(columns)


def key_column(batch: pa.RecordBatch, key: str) -> AnyArray:
    """A column as record keys."""
    return batch.column(key).cast(pa.string()).cast(pa.binary())


def _writable(values: AnyArray, name: str) -> AnyArray:
    """Convert to a type that has a form in JSON."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _writable(values.dictionary_decode(), name)
    if pa.types.is_null(kind):
        return values.cast(pa.string())
    if pa.types.is_large_string(kind) or pa.types.is_time(kind) or pa.types.is_string_view(kind):
        return values.cast(pa.string())
    if pa.types.is_date64(kind):
        return values.cast(pa.date32())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        # As Spark writes it.
        texts = [None if each is None else _base64(each) for each in values.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_struct(kind):
        parts = [
            _writable(part, f"{name}.{field.name}")
            for field, part in zip(kind, values.flatten(), strict=True)
        ]
        return pa.StructArray.from_arrays(parts, names=kind.names, mask=compute.is_null(values))
    if pa.types.is_list(kind):
        items = _writable(values.values, f"{name}[]")
        if items is values.values or items.type == kind.value_type:
            return values
        return pa.ListArray.from_arrays(values.offsets, items, mask=compute.is_null(values))
    if pa.types.is_map(kind) or pa.types.is_union(kind) or pa.types.is_duration(kind):
        raise WrongColumns(f"the column {name} is {kind}, which JSON values cannot have")
    return values


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


class JsonRowReader:
    """Decodes values as the columns of a schema."""

    def __init__(self, columns: pa.Schema) -> None:
        self.columns = columns

    def read(self, records: pa.Table, key: str | None) -> pa.RecordBatch:
        return read_rows(records, self.columns, key)


def read_rows(records: pa.Table, schema: pa.Schema, key: str | None) -> pa.RecordBatch:
    """The rows of records. Raises `MalformedValue` for the first that is no row.

    With a key, a tombstone is a row in which `__deleted` is true.
    """
    values = whole(records.column("value"))
    try:
        rows = read_json(values, pa.struct(list(schema)))
    except NotJson as error:
        raise MalformedValue(error.index, str(error)) from None
    malformed = compute.and_(compute.is_null(rows), compute.is_valid(values))
    if compute.any(malformed).as_py():
        raise MalformedValue(malformed.index(True).as_py(), "it is null, not an object")
    return keyed_rows(rows, records, key)


def keyed_rows(rows: AnyArray, records: pa.Table, key: str | None) -> pa.RecordBatch:
    """Columns of decoded values; with a key, its column and which rows are deleted."""
    columns = dict(zip(rows.type.names, rows.flatten(), strict=True))
    if key is not None:
        texts = whole(records.column("key")).cast(pa.string())
        columns[key] = compute.coalesce(columns[key], texts.cast(columns[key].type))
        columns[DELETED] = compute.is_null(rows)
    return pa.RecordBatch.from_pydict(columns)


def without_tombstones(records: pa.Table) -> pa.Table:
    """The records with a value; without a key, a tombstone deletes nothing."""
    return records.filter(compute.is_valid(records.column("value")))


def row_schema(schema: pa.Schema, key: str | None) -> pa.Schema:
    """The schema of `read_rows`."""
    return schema if key is None else schema.append(pa.field(DELETED, pa.bool_()))


def whole(column: AnyArray) -> AnyArray:
    """One array of a column of a table."""
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = found.chunk(0)
    return found
