"""Cache Protobuf schemas of a registry in Spark's processes, with retries."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from headwater.client.schema_registry import RegisteredSchema, SchemaNotFound, SchemaReference
from headwater.client.serialization.schema_registry_settings import URL
from headwater.schemas.errors import InvalidSchema, UnsupportedSchema
from headwater.schemas.protobuf.resolution import ProtobufSchema
from headwater.schemas.protobuf.schema_reader import read_schema
from headwater.spark.client_cache import ClientCache
from headwater.spark.formats.avro.avro_options import RegistryAccess
from headwater.spark.formats.avro.registry_cache import RetryingRegistry
from headwater.spark.formats.protobuf.named_message import NamedMessage
from headwater.spark.formats.protobuf.protobuf_reader import ProtobufReader

_TYPE: Final = "PROTOBUF"
_SCHEMA: Final = "schema"
_REFERENCES_MAX: Final = 100


class ProtobufRegistry(RetryingRegistry):
    """A registry of Protobuf schemas that may be away for some seconds."""

    def protobuf_by_id(self, schema_id: int) -> ProtobufSchema | None:
        """The schema, or None. Raises `UnsupportedSchema` if it is of another type."""
        try:
            found = self._ask(lambda: self._registry.schema(schema_id))
        except SchemaNotFound:
            return None
        return self.imports_and_schema(found)[1]

    def imports_and_schema(
        self, registered: RegisteredSchema
    ) -> tuple[dict[str, str], ProtobufSchema]:
        """The texts of all imports by their names, and the schema."""
        if registered.schema_type != _TYPE:
            raise UnsupportedSchema(
                f"schema {registered.id} is {registered.schema_type}, not Protobuf"
            )
        imports: dict[str, str] = {}
        self._add_imports(registered.references, imports)
        try:
            return imports, read_schema(registered.schema, imports.items())
        except InvalidSchema as error:
            raise UnsupportedSchema(str(error)) from error

    def register_protobuf(self, subject: str, text: str) -> int:
        return self._ask(lambda: self._registry.register(subject, text, schema_type=_TYPE))

    def look_up_protobuf(self, subject: str, text: str) -> RegisteredSchema | None:
        try:
            return self._ask(lambda: self._registry.look_up(subject, text, schema_type=_TYPE))
        except SchemaNotFound:
            return None

    def protobuf_incompatibilities(self, subject: str, text: str) -> list[str]:
        ask = partial(self._registry.incompatibilities, subject, text, schema_type=_TYPE)
        try:
            return self._ask(ask)
        except SchemaNotFound:
            return []

    def _add_imports(
        self, references: tuple[SchemaReference, ...], imports: dict[str, str]
    ) -> None:
        for each in references:
            if each.name in imports:
                continue
            if len(imports) >= _REFERENCES_MAX:
                raise UnsupportedSchema(f"a schema refers to more than {_REFERENCES_MAX} others")
            ask = partial(self._registry.version, each.subject, each.version, deleted=True)
            found = self._ask(ask)
            imports[each.name] = found.schema
            self._add_imports(found.references, imports)


class RegistryProtobufReader(ProtobufReader):
    """Reads columns, and asks a registry for the schemas of writers."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        others = {name: text for name, text in settings.items() if name not in (URL, _SCHEMA)}
        self._registry = ProtobufRegistry(RegistryAccess(settings[URL], others))
        chosen = NamedMessage.from_text(settings[_SCHEMA])
        super().__init__(chosen.parsed(), chosen.message, self._registry.protobuf_by_id)

    def close(self) -> None:
        self._registry.close()


_readers: Final = ClientCache(RegistryProtobufReader)


def cached_protobuf_reader(access: RegistryAccess, schema: str) -> ProtobufReader:
    """This process's reader for a message, which is given as text with its imports."""
    return _readers.get({**access.settings, URL: access.url, _SCHEMA: schema})
