"""Readers of values whose schemas are in a registry."""

import json
from typing import Any

import pyarrow as pa

from headwater.client.schema_registry import RegisteredSchema, SchemaNotFound, SchemaRegistry
from headwater.client.serialization.schema_registry_settings import URL
from headwater.schemas.errors import InvalidSchema, UnsupportedSchema
from headwater.spark.formats.avro.avro_options import RegistryAccess
from headwater.sql.json_columns import ObjectOf, kind_of_schema
from headwater.sql.sql_errors import QueryError
from headwater.sql.value_readers import JsonReader, JsonTextReader, StructReader, ValueReader


class RegistryReaders:
    """Finds the schema of a topic's keys or values and makes readers. Thread-safe."""

    def __init__(self, url: str, settings: dict[str, str] | None = None) -> None:
        others = {name: text for name, text in (settings or {}).items() if name != URL}
        self._access = RegistryAccess(url, others)
        self._registry = SchemaRegistry(url, others)
        self._closers: list[Any] = [self._registry]

    def close(self) -> None:
        while self._closers:
            self._closers.pop().close()

    def latest(self, subject: str) -> RegisteredSchema | None:
        try:
            return self._registry.version(subject)
        except SchemaNotFound:
            return None

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        try:
            return self._registry.schema(schema_id)
        except SchemaNotFound:
            return None

    def reader(self, schema: RegisteredSchema, name: str, *, is_whole: bool) -> ValueReader:
        """Read values as this schema; a value that is no record has the column `name`."""
        try:
            match schema.schema_type:
                case "AVRO":
                    avro = _AvroFields(self._access, schema)
                    self._closers.append(avro)
                    return StructReader(name, "avro", avro, is_whole=is_whole)
                case "PROTOBUF":
                    protobuf = _ProtobufFields(self._access, schema)
                    self._closers.append(protobuf)
                    return StructReader(name, "protobuf", protobuf, is_whole=is_whole)
                case "JSON":
                    kind = kind_of_schema(json.loads(schema.schema))
                    is_object = isinstance(kind, ObjectOf) and bool(kind.fields) and not is_whole
                    if is_object and isinstance(kind, ObjectOf):
                        return JsonReader(kind, has_prefix=True)
                    return JsonTextReader(name)
                case other:
                    raise QueryError(f"schema {schema.id} is {other}, which cannot be read")
        except (InvalidSchema, UnsupportedSchema, ValueError) as error:
            raise QueryError(f"schema {schema.id} cannot be read: {error}") from error
        except ImportError as error:
            raise QueryError(
                f"{error.name} is not installed: pip install 'headwater[sql,protobuf]'"
            ) from error


class _AvroFields:
    """Avro readers of some fields of a schema."""

    def __init__(self, access: RegistryAccess, schema: RegisteredSchema) -> None:
        # Imports numpy.
        from headwater.spark.formats.avro.column_types import column_type
        from headwater.spark.formats.avro.registry_cache import RetryingRegistry

        self._registry = RetryingRegistry(access)
        self._schema = self._registry.parsed(schema)
        self.kind: Any = column_type(self._schema)
        self._readers: dict[tuple[str, ...] | None, Any] = {}

    def close(self) -> None:
        self._registry.close()

    def __call__(self, names: tuple[str, ...] | None) -> Any:
        from headwater.spark.formats.avro.avro_reader import AvroReader
        from headwater.spark.formats.avro.schema_text import cut

        if names not in self._readers:
            chosen = self._schema
            if names is not None:
                fields = [self.kind.field(each) for each in names]
                chosen = cut(chosen, pa.struct(fields), "value")
            self._readers[names] = AvroReader(chosen, self._registry.by_id)
        return self._readers[names]


class _ProtobufFields:
    """A Protobuf reader; it reads all fields, since messages are parsed whole."""

    def __init__(self, access: RegistryAccess, schema: RegisteredSchema) -> None:
        from headwater.spark.formats.protobuf.named_message import named
        from headwater.spark.formats.protobuf.protobuf_reader import ProtobufReader
        from headwater.spark.formats.protobuf.registry_cache import ProtobufRegistry

        self._registry = ProtobufRegistry(access)
        imports, _ = self._registry.imports_and_schema(schema)
        chosen = named(schema.schema, None, imports)
        self._reader = ProtobufReader(
            chosen.parsed(), chosen.message, self._registry.protobuf_by_id
        )
        self.kind: Any = self._reader.kind

    def close(self) -> None:
        self._registry.close()

    def __call__(self, names: tuple[str, ...] | None) -> Any:
        del names
        return self._reader
