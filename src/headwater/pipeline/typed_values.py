"""Keys and values with types: what a record's bytes are to a query, and a query's rows to a record.

What a reader would get wrong: a record that cannot be read stops the query, unlike Spark's
`from_json`, which makes it null. Whoever wants that says `mode=PERMISSIVE`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headwater.model.ids import TopicPartition
from headwater.pipeline.failures import UnparsableRecord
from headwater.pipeline.json_reading import NotJson, read_json
from headwater.pipeline.json_writing import write_json
from headwater.pipeline.value_formats import ValueFormat


@dataclass(frozen=True, slots=True)
class JsonColumn:
    """A column of the source that is read from JSON."""

    kind: pa.DataType
    is_lenient: bool


def read_column(
    partition: TopicPartition, name: str, column: JsonColumn, records: pa.RecordBatch
) -> Any:
    """A column of decoded records, as values of its type. `UnparsableRecord` tells which is not."""
    try:
        return read_json(records.column(name), column.kind, is_lenient=column.is_lenient)
    except NotJson as error:
        offset = records.column("offset")[error.index].as_py()
        raise UnparsableRecord(
            f"the {name} of {partition} at offset {offset} is not the JSON that the schema says: "
            f"{error}; with mode=PERMISSIVE it would be null"
        ) from None


def written(
    rows: Iterable[pa.RecordBatch], formats: Mapping[str, ValueFormat]
) -> Iterator[pa.RecordBatch]:
    """Rows whose typed columns are bytes, as a producer takes them."""
    for batch in rows:
        columns = [
            write_json(column) if name in formats else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
