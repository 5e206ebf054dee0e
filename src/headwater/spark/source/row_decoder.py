"""Decode record batches into Arrow batches with the columns that Spark expects.

Note: Spark checks only the first batch of a task against the schema. Every batch is therefore made
by the same function from the same list of columns.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headwater.common.ids import TopicPartition
from headwater.records.arrow_values import integer, null, text
from headwater.spark.exceptions import WrongColumns
from headwater.spark.formats.typed_values import TypedColumn, read_column

if TYPE_CHECKING:
    from typing import Any

    AnyArray = pa.Array[Any]
else:  # The classes have type parameters in the stubs only.
    AnyArray = pa.Array

COLUMNS: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
HEADERS: Final = "headers array<struct<key: string, value: binary>>"
BATCH_COLUMNS: Final = (
    "batch binary, topic string, partition int, baseOffset bigint, lastOffset bigint, "
    "timestamp timestamp, recordCount int"
)

_KINDS: Final = {
    "key": frozenset({"binary", "string"}),
    "value": frozenset({"binary", "string"}),
    "topic": frozenset({"string"}),
    "partition": frozenset({"int"}),
    "offset": frozenset({"bigint"}),
    "timestamp": frozenset({"timestamp"}),
    "timestampType": frozenset({"int"}),
    "headers": frozenset({"array<struct<key:string,value:binary>>"}),
}
_LOG_APPEND_TIME_FLAG: Final = 0x08
_SPARKS_TIME: Final = pa.timestamp("us", tz="UTC")
_SPARKS_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)

Rows = pa.RecordBatch
ToRows = Callable[[pa.RecordBatch], Rows]


def check_columns(columns: Mapping[str, str]) -> None:
    """Check that a user's schema has only columns of a record."""
    for name, kind in columns.items():
        kinds = _KINDS.get(name)
        if kinds is None:
            raise WrongColumns(f"a record has no {name}; it has {', '.join(_KINDS)}")
        if kind not in kinds:
            wanted = " or ".join(sorted(kinds))
            hint = f"; with {name}Format=json it may be" if name in ("key", "value") else ""
            raise WrongColumns(f"the column {name} is of type {wanted}, not {kind}{hint}")


def to_rows(
    partition: TopicPartition,
    names: Sequence[str],
    texts: frozenset[str],
    typed: Mapping[str, TypedColumn] | None = None,
) -> ToRows:
    """Return a function from records to rows of these columns, as text or typed."""
    makers = {name: _maker(partition, name, is_text=name in texts) for name in names}
    for name, column in (typed or {}).items():
        makers[name] = partial(read_column, partition, name, column)

    def make(records: pa.RecordBatch) -> Rows:
        return pa.RecordBatch.from_arrays(
            [make_column(records) for make_column in makers.values()], names=list(makers)
        )

    return make


def before(records: pa.RecordBatch, end_offset: int) -> pa.RecordBatch:
    """Return the records below an offset, which are the first ones."""
    offsets = records.column("offset")
    count = len(offsets)
    if not count or offsets[count - 1].as_py() < end_offset:
        return records
    is_before = pc.less(offsets, integer(end_offset, pa.int64()))
    return records.slice(0, pc.sum(is_before.cast(pa.int64())).as_py() or 0)


def _maker(
    partition: TopicPartition, name: str, *, is_text: bool
) -> Callable[[pa.RecordBatch], AnyArray]:
    match name:
        case "topic":
            topic = text(partition.topic)
            return lambda records: pa.repeat(topic, records.num_rows)
        case "partition":
            number = integer(partition.partition, pa.int32())
            return lambda records: pa.repeat(number, records.num_rows)
        case "timestamp":
            return lambda records: _times(records.column("timestamp"))
        case "timestampType":
            return lambda records: _time_types(records.column("attributes"))
        case "headers":
            return lambda records: _headers(records.column("headers"))
        case _ if is_text:
            return lambda records: records.column(name).cast(pa.string())
        case _:
            return lambda records: records.column(name)


def _headers(lists: AnyArray) -> AnyArray:
    """Return headers, or null for none, like Spark's connector."""
    has_any = pc.greater(pc.call_function("list_value_length", [lists]), integer(0, pa.int32()))
    found: AnyArray = pc.if_else(has_any, lists.cast(_SPARKS_HEADERS), null(_SPARKS_HEADERS))
    return found


def _times(milliseconds: AnyArray) -> AnyArray:
    return milliseconds.cast(pa.timestamp("ms", tz="UTC")).cast(_SPARKS_TIME)


def _time_types(attributes: AnyArray) -> AnyArray:
    flag = integer(_LOG_APPEND_TIME_FLAG, pa.int16())
    is_set = pc.not_equal(pc.bit_wise_and(attributes, flag), integer(0, pa.int16()))
    found: AnyArray = is_set.cast(pa.int32())
    return found
