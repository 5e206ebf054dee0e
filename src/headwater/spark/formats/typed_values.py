"""Convert keys and values between the bytes of records and typed columns.

Note: a record that cannot be decoded fails the query, unlike Spark's `from_json`, which returns
null. `mode=PERMISSIVE` selects null.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from headwater.common.ids import TopicPartition
from headwater.spark.exceptions import UnparsableRecord
from headwater.spark.formats.avro.avro_options import AvroTarget, RegistryAccess
from headwater.spark.formats.json.json_reader import NotJson, read_json
from headwater.spark.formats.json.json_writer import write_json


@dataclass(frozen=True, slots=True)
class JsonColumn:
    """A column of the source that is read from JSON."""

    kind: pa.DataType
    is_lenient: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroColumn:
    """A column of the source that is read from Avro with the reader's schema."""

    registry: RegistryAccess
    schema: str
    is_lenient: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufColumn:
    """A column of the source that is read from Protobuf, as a message of a schema."""

    registry: RegistryAccess
    schema: str
    # With all fields of the message, or some of them.
    kind: pa.DataType
    is_lenient: bool


TypedColumn = JsonColumn | AvroColumn | ProtobufColumn


def read_column(
    partition: TopicPartition, name: str, column: TypedColumn, records: pa.RecordBatch
) -> Any:
    """Read a column of records as values of its type; may raise `UnparsableRecord`."""
    if isinstance(column, AvroColumn):
        return _read_avro(partition, name, column, records)
    if isinstance(column, ProtobufColumn):
        return _read_protobuf(partition, name, column, records)
    try:
        return read_json(records.column(name), column.kind, is_lenient=column.is_lenient)
    except NotJson as error:
        offset = records.column("offset")[error.index].as_py()
        raise UnparsableRecord(
            f"the {name} of {partition} at offset {offset} is not the JSON that the schema says: "
            f"{error}; with mode=PERMISSIVE it would be null"
        ) from None


def _read_avro(
    partition: TopicPartition, name: str, column: AvroColumn, records: pa.RecordBatch
) -> Any:
    # Imported only for Avro, because it imports numpy.
    from headwater.spark.formats.avro.registry_cache import cached_avro_reader

    found = cached_avro_reader(column.registry, column.schema).read(records.column(name))
    if found.unreadable and not column.is_lenient:
        row = min(found.unreadable)
        offset = records.column("offset")[row].as_py()
        raise UnparsableRecord(
            f"the {name} of {partition} at offset {offset} cannot be read as Avro: "
            f"{found.unreadable[row]}; with mode=PERMISSIVE it would be null"
        )
    return found.values


def _read_protobuf(
    partition: TopicPartition, name: str, column: ProtobufColumn, records: pa.RecordBatch
) -> Any:
    from headwater.spark.formats.protobuf.reader_schema import selected
    from headwater.spark.formats.protobuf.registry_cache import cached_protobuf_reader

    found = cached_protobuf_reader(column.registry, column.schema).read(records.column(name))
    if found.unreadable and not column.is_lenient:
        row = min(found.unreadable)
        offset = records.column("offset")[row].as_py()
        raise UnparsableRecord(
            f"the {name} of {partition} at offset {offset} cannot be read as Protobuf: "
            f"{found.unreadable[row]}; with mode=PERMISSIVE it would be null"
        )
    return selected(found.values, column.kind)


def written(
    rows: Iterable[pa.RecordBatch],
    formats: Collection[str],
    targets: Mapping[str, AvroTarget] = MappingProxyType({}),
) -> Iterator[pa.RecordBatch]:
    """Encode the columns that have a format, as bytes for a producer.

    Columns with a target are Avro or Protobuf, the others JSON.
    """
    writers: dict[tuple[str, Any], Callable[[Any], Any]] = {}
    for batch in rows:
        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in formats:
                place = (name, column.type)
                if place not in writers:
                    writers[place] = _writer(targets.get(name), column.type)
                columns.append(writers[place](column))
            else:
                columns.append(column)
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _writer(target: AvroTarget | None, kind: Any) -> Callable[[Any], Any]:
    if target is None:
        return write_json
    if target.is_protobuf:
        from headwater.spark.formats.protobuf.named_message import NamedMessage
        from headwater.spark.formats.protobuf.protobuf_writer import protobuf_writer

        chosen = NamedMessage.from_text(target.schema)
        return protobuf_writer(chosen.parsed(), chosen.message, kind, target.schema_id)
    from headwater.schemas.avro.resolved_schema import parse_schema
    from headwater.spark.formats.avro.avro_writer import avro_writer

    return avro_writer(parse_schema(target.schema), kind, target.schema_id)
