"""The columns of a topic, and how records become rows.

| column | type |
|---|---|
| `_partition` | INTEGER |
| `_offset` | BIGINT |
| `_timestamp` | TIMESTAMP WITH TIME ZONE |
| `_key` | text, bytes, or what the registry says |
| `_headers` | STRUCT("key" VARCHAR, "value" BLOB)[] |
| fields of the value, or `value` | what the registry or a sample says |

`"orders$raw"` has the bytes of all records in `_value`; `"orders$errors"` has the records that do
not fit their types, with the reason.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from headwater.records.arrow_values import integer
from headwater.sql.scan_predicates import OFFSET, PARTITION, TIMESTAMP
from headwater.sql.value_readers import ReadParts, ValueReader

compute: Any = pyarrow.compute
# The stubs have a type per kind of field.
AnyField = Any

KEY: Final = "_key"
HEADERS: Final = "_headers"
VALUE: Final = "_value"
PART: Final = "_part"
REASON: Final = "_reason"
RECORD_COLUMNS: Final = (PARTITION, OFFSET, TIMESTAMP)

_TIME: Final = pa.timestamp("ms", tz="UTC")
_HEADERS_TYPE: Final = pa.list_(
    pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
)
_HEADERS_FIELD: Final[AnyField] = pa.field(HEADERS, _HEADERS_TYPE)
_RECORD_FIELDS: Final[tuple[AnyField, ...]] = (
    pa.field(PARTITION, pa.int32()),
    pa.field(OFFSET, pa.int64()),
    pa.field(TIMESTAMP, _TIME),
)


class TableView(Enum):
    """Which rows and columns of a topic a table has."""

    TYPED = ""
    RAW = "$raw"
    ERRORS = "$errors"


@dataclass(frozen=True, slots=True)
class Misfit:
    """A record that does not fit the type of its key or value."""

    row: int
    part: str
    reason: str


@dataclass(frozen=True, slots=True)
class TableRows:
    batch: pa.RecordBatch
    misfits: list[Misfit] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """Columns of a topic with their readers."""

    topic: str
    key: ValueReader
    value: ValueReader
    # How the types were found, for people.
    origin: str

    def schema(self, view: TableView) -> pa.Schema:
        match view:
            case TableView.TYPED:
                fields: list[AnyField] = [*_RECORD_FIELDS, *self.key.fields, _HEADERS_FIELD]
                return pa.schema([*fields, *self.value_columns().values()])
            case TableView.RAW:
                return pa.schema(
                    [
                        *_RECORD_FIELDS,
                        pa.field(KEY, pa.binary()),
                        _HEADERS_FIELD,
                        pa.field(VALUE, pa.binary()),
                    ]
                )
            case TableView.ERRORS:
                return pa.schema(
                    [
                        *_RECORD_FIELDS,
                        pa.field(PART, pa.string()),
                        pa.field(REASON, pa.string()),
                        pa.field(KEY, pa.binary()),
                        pa.field(VALUE, pa.binary()),
                    ]
                )

    def value_columns(self) -> dict[str, AnyField]:
        """Fields of the value with the names of their columns, which must be unique.

        SQL does not distinguish upper and lower case.
        """
        taken = {PARTITION, OFFSET, TIMESTAMP, KEY, HEADERS}
        found = {}
        for each in self.value.fields:
            name = each.name or "unnamed"
            number = 1
            while name.lower() in taken:
                name = f"{each.name}_{number}"
                number += 1
            taken.add(name.lower())
            found[each.name] = each.with_name(name)
        return found


def rows_maker(
    table: TopicTable, view: TableView, names: Sequence[str], partition: int
) -> Callable[[pa.RecordBatch], TableRows]:
    """A function from decoded records to rows with these columns."""
    schema = table.schema(view)
    wanted = pa.schema([schema.field(name) for name in names])
    if view is TableView.ERRORS:
        return lambda records: TableRows(_error_rows(table, wanted, partition, records))
    if view is TableView.RAW:
        return lambda records: TableRows(
            _batch(_record_columns(records, partition, wanted.names), wanted, records.num_rows)
        )
    originals = {each.name: name for name, each in table.value_columns().items()}
    of_value = [originals[name] for name in names if name in originals]

    def typed(records: pa.RecordBatch) -> TableRows:
        columns = _record_columns(records, partition, [n for n in names if n != KEY])
        misfits: list[Misfit] = []
        if KEY in names:
            keys = table.key.read(records.column("key"), [KEY])
            columns |= keys.columns
            misfits += _misfits(keys, "key")
        if of_value:
            values = table.value.read(records.column("value"), of_value)
            columns |= {
                name: values.columns[original]
                for name, original in originals.items()
                if original in values.columns
            }
            misfits += _misfits(values, "value")
        return TableRows(_batch(columns, wanted, records.num_rows), misfits)

    return typed


def _misfits(found: ReadParts, part: str) -> list[Misfit]:
    return [Misfit(row, part, reason) for row, reason in sorted(found.misfits.items())]


def _batch(columns: dict[str, Any], schema: pa.Schema, count: int) -> pa.RecordBatch:
    arrays = []
    for each in schema:
        column = columns[each.name]
        arrays.append(column if column.type == each.type else column.cast(each.type))
    if not arrays:
        array: Any = pa.array
        return pa.RecordBatch.from_struct_array(array([{}] * count, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _record_columns(
    records: pa.RecordBatch, partition: int, names: Sequence[str]
) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name in names:
        match name:
            case "_partition":
                columns[name] = pa.repeat(integer(partition, pa.int32()), records.num_rows)
            case "_offset":
                columns[name] = records.column("offset")
            case "_timestamp":
                columns[name] = records.column("timestamp").cast(_TIME)
            case "_headers":
                columns[name] = records.column("headers")
            case "_key":
                columns[name] = records.column("key")
            case "_value":
                columns[name] = records.column("value")
            case _:
                continue
    return columns


def _error_rows(
    table: TopicTable, schema: pa.Schema, partition: int, records: pa.RecordBatch
) -> pa.RecordBatch:
    keys = table.key.read(records.column("key"), [each.name for each in table.key.fields])
    values = table.value.read(records.column("value"), [each.name for each in table.value.fields])
    misfits = sorted(
        [*_misfits(keys, "key"), *_misfits(values, "value")], key=lambda each: each.row
    )
    array: Any = pa.array
    chosen: Any = records.take(array([each.row for each in misfits], pa.int64()))
    columns = _record_columns(chosen, partition, schema.names)
    columns[PART] = array([each.part for each in misfits], pa.string())
    columns[REASON] = array([each.reason for each in misfits], pa.string())
    return _batch(columns, schema, len(misfits))


def before_and_from(records: pa.RecordBatch, first: int, end: int) -> pa.RecordBatch:
    """Records with offsets [first, end), which are sorted by offset."""
    offsets = records.column("offset")
    if not len(offsets) or (offsets[0].as_py() >= first and offsets[-1].as_py() < end):
        return records
    found: pa.RecordBatch = records.filter(
        compute.and_(
            compute.greater_equal(offsets, integer(first, pa.int64())),
            compute.less(offsets, integer(end, pa.int64())),
        )
    )
    return found
