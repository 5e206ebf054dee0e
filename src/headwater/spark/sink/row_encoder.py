"""Turn rows of Spark into topics and the columns that a producer takes.

Note: a null value is valid and makes a tombstone. A row without a topic fails the task. Columns
that have no meaning in a record are ignored, as in Spark's Kafka connector: the rows of one topic,
with their offsets, can be written to another.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headwater.spark.exceptions import WrongColumns

_TEXTS: Final = frozenset({"string", "binary"})
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_KINDS: Final = {
    "topic": frozenset({"string"}),
    "key": _TEXTS,
    "value": _TEXTS,
    "headers": frozenset({_HEADERS}),
    "partition": frozenset({"int"}),
}
_SENT: Final = ("key", "value", "headers", "partition")


def check_columns(
    columns: Mapping[str, str], topic: str | None, typed: Collection[str] = ()
) -> None:
    """Raise `WrongColumns` if rows with columns of these types cannot be written.

    `typed` columns have a format and may be of any type.
    """
    if topic is None and "topic" not in columns:
        raise WrongColumns("the topic is missing: set the option topic, or add a column topic")
    if "value" not in columns:
        raise WrongColumns(f"there is no column value among {', '.join(columns)}")
    for name, kind in columns.items():
        allowed = _KINDS.get(name)
        if allowed is not None and kind not in allowed and name not in typed:
            wanted = " or ".join(sorted(allowed))
            hint = f"; with {name}Format=json it may be" if allowed is _TEXTS else ""
            raise WrongColumns(f"the column {name} must be of type {wanted}, not {kind}{hint}")


def by_topic(rows: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each topic, in order, for a producer's `send_table`."""
    table = pa.Table.from_batches([rows])
    if topic is not None:
        yield topic, _sent(table)
        return
    topics = table.column("topic")
    if topics.null_count:
        raise WrongColumns("a row has no topic, and the option topic is not given")
    for each in pc.unique(topics):
        yield str(each), _sent(table.filter(pc.equal(topics, each)))


def _sent(table: pa.Table) -> pa.Table:
    return table.select([name for name in _SENT if name in table.column_names])
