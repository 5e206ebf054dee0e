"""Write and read change events in Avro, with schemas in a registry.

Subjects are called after the topic, as by default in Confluent's serializers: `topic-key` and
`topic-value`. A table whose columns have changed gets another version of its subject.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from headwater.client.avro import AvroDeserializer, AvroSerializer
from headwater.client.errors import SerializationFailed
from headwater.client.schema_registry import RegistryResponseError, SchemaRegistry
from headwater.common.exceptions import HeadwaterError
from headwater.connect.postgresql_cdc.avro_schemas import key_schema, value_schema
from headwater.connect.postgresql_cdc.column_types import BYTEA, FLOAT4, FLOAT8, typed_value
from headwater.connect.postgresql_cdc.debezium_envelope import UNAVAILABLE, json_value
from headwater.connect.postgresql_cdc.pgoutput import (
    ColumnText,
    Relation,
    TupleData,
    UnchangedToast,
)


class SchemaRefused(HeadwaterError):
    """The registry does not accept the schema of a table."""


class AvroEvents:
    """The format of events for `DebeziumEnvelope`; one for each task."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._serializers: dict[tuple[str, bool], tuple[Relation, AvroSerializer]] = {}

    def row(self, relation: Relation, row: TupleData) -> dict[str, Any]:
        return {
            column.name: _avro_value(column.type_oid, value)
            for column, value in zip(relation.columns, row, strict=True)
        }

    def key(self, topic: str, relation: Relation, key: Mapping[str, Any]) -> bytes:
        names = tuple(key)
        serializer = self._serializer(
            topic, relation, is_key=True, schema=lambda: key_schema(topic, relation, names)
        )
        return _serialized(serializer, key, topic)

    def value(self, topic: str, relation: Relation, event: Mapping[str, Any]) -> bytes:
        serializer = self._serializer(
            topic, relation, is_key=False, schema=lambda: value_schema(topic, relation)
        )
        return _serialized(serializer, event, topic)

    def _serializer(
        self, topic: str, relation: Relation, *, is_key: bool, schema: Callable[[], dict[str, Any]]
    ) -> AvroSerializer:
        place = (topic, is_key)
        found = self._serializers.get(place)
        if found is not None and found[0] is relation:
            return found[1]
        # Another object is a changed relation, or the same one in another file.
        if found is None or found[0] != relation:
            serializer = AvroSerializer(self._registry, schema(), topic=topic, is_key=is_key)
        else:
            serializer = found[1]
        self._serializers[place] = (relation, serializer)
        return serializer


def _serialized(serializer: AvroSerializer, value: Mapping[str, Any], topic: str) -> bytes:
    try:
        return serializer(value)
    except RegistryResponseError as error:
        raise SchemaRefused(
            f"the registry refuses the schema of topic {topic}: {_first_line(error)}"
        ) from error


@contextmanager
def avro_events(registry_url: str) -> Iterator[AvroEvents]:
    """The format of events, until a task ends."""
    with closing(SchemaRegistry(registry_url)) as registry:
        yield AvroEvents(registry)


@contextmanager
def avro_decoder(registry_url: str) -> Iterator[Callable[[bytes], Any]]:
    """A function that decodes keys and values, until a task ends."""
    with closing(SchemaRegistry(registry_url)) as registry:
        deserializer = AvroDeserializer(registry)

        def decode(raw: bytes) -> Any:
            try:
                return deserializer(raw)
            except SerializationFailed as error:
                raise ValueError(str(error)) from error

        yield decode


def _avro_value(type_oid: int, value: ColumnText) -> Any:
    if type_oid == BYTEA and isinstance(value, UnchangedToast):
        return UNAVAILABLE.encode()
    if type_oid in (BYTEA, FLOAT4, FLOAT8) and isinstance(value, str):
        return typed_value(type_oid, value)
    return json_value(type_oid, value)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
