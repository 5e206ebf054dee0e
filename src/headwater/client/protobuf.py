"""Protobuf serializers with a schema registry, in Confluent's wire format.

    registry = SchemaRegistry("http://localhost:8081")
    producer = Producer(
        bootstrap_servers="localhost:9092",
        value_serializer=ProtobufSerializer(registry, Tea, topic="tea"),
    )
    consumer = Consumer(
        bootstrap_servers="localhost:9092", value_deserializer=ProtobufDeserializer(registry, Tea)
    )

`Tea` is a class that protoc has generated. Without one, a serializer takes the text of a .proto
file, and dicts as values; a deserializer makes classes from the schemas of the registry.
"""

from collections.abc import Mapping
from typing import Any, Final, Unpack

from headwater.client.errors import SerializationFailed
from headwater.client.schema_registry import RegisteredSchema, SchemaReference, SchemaRegistry
from headwater.client.serialization.schema_registry_serde import (
    CACHED_MAX,
    PREFIX_BYTES,
    RegisteredDeserializer,
    RegisteredSerializer,
    SerializerOptions,
    SubjectNaming,
    record_subject,
    referred_schemas,
    schema_id_of,
    topic_record_subject,
    topic_subject,
)
from headwater.common.exceptions import InvalidSetting
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.protobuf.canonical_form import canonical
from headwater.schemas.protobuf.descriptor_reader import read_descriptor
from headwater.schemas.protobuf.message_indexes import (
    decode_indexes,
    encode_indexes,
    indexes_of,
)
from headwater.schemas.protobuf.messages import MessageClasses
from headwater.schemas.protobuf.resolution import joined
from headwater.schemas.protobuf.schema_reader import read_file, read_schema
from headwater.schemas.protobuf.well_known import well_known_file

try:
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError, EncodeError, Message
except ImportError as error:
    raise InvalidSetting("protobuf is not installed: pip install 'headwater[protobuf]'") from error

__all__ = [
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "SubjectNaming",
    "record_subject",
    "to_dict",
    "topic_record_subject",
    "topic_subject",
]

_TYPE: Final = "PROTOBUF"


def to_dict(message: Message) -> dict[str, Any]:
    """Return a message as a dict: Protobuf's JSON with the schema's field names."""
    found: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return found


class _Target:
    """The class of values, and the indexes of its message in the registered schema."""

    def __init__(self, kind: type[Message], indexes: bytes) -> None:
        self.kind = kind
        self.indexes = indexes


class ProtobufSerializer(RegisteredSerializer[_Target]):
    """Serialize messages. A callable for `key_serializer` and `value_serializer`.

    With record name strategies, the subject uses the full name of the message.
    """

    schema_type = _TYPE

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: type[Message] | str | None = None,
        *,
        message: str | None = None,
        **options: Unpack[SerializerOptions],
    ) -> None:
        """`schema` is a generated class, or the text of a .proto file.

        `message` is the full name of a message in such a text; the default is the first one.
        `options` are those of `AvroSerializer`. The files that a generated class imports are
        registered under subjects with their names, unless `references` are given.
        """
        self._kind = None if schema is None or isinstance(schema, str) else schema
        self._message = message if self._kind is None else self._kind.DESCRIPTOR.full_name
        self._registers_imports = self._kind is not None and not options.get("references")
        text = schema if isinstance(schema, str) else None
        if self._kind is not None:
            text = _text_of(self._kind.DESCRIPTOR.file)
        super().__init__(registry, text, **options)

    def __call__(self, value: Any) -> bytes:
        prefix, target = self._prepared()
        try:
            return prefix + target.indexes + _message(value, target.kind).SerializeToString()
        except (EncodeError, json_format.ParseError, TypeError, ValueError) as error:
            raise SerializationFailed(
                f"value does not match its Protobuf schema: {error}"
            ) from error

    def _registered(self) -> RegisteredSchema:
        if self._registers_imports and self._kind is not None and not self._use_latest_version:
            self._references = self._import_references(self._kind.DESCRIPTOR.file)
        return super()._registered()

    def _import_references(self, file: Any) -> tuple[SchemaReference, ...]:
        """Register what a file (a FileDescriptor) imports, each after its own imports."""
        found = []
        for each in file.dependencies:
            if well_known_file(each.name) is not None:
                continue
            references = self._import_references(each)
            text = _text_of(each)
            if self._auto_register:
                self._registry.register(each.name, text, references, schema_type=_TYPE)
            known = self._registry.look_up(each.name, text, references, schema_type=_TYPE)
            assert known.version is not None, "a version was looked up"
            found.append(SchemaReference(name=each.name, subject=each.name, version=known.version))
        return tuple(found)

    def _parsed(self, schema: RegisteredSchema) -> _Target:
        classes = registered_classes(self._registry, schema)
        file = classes.schema.file
        name = self._message or _first_name(schema.schema)
        indexes = None if name is None else indexes_of(file, name)
        if name is None or indexes is None:
            raise SerializationFailed(f"the schema has no message {name or 'at all'}")
        kind = self._kind or classes.named(name)
        return _Target(kind, encode_indexes(indexes))

    def _record_name(self, text: str | None) -> str | None:
        if self._message is not None or text is None:
            return self._message
        return _first_name(text)


class ProtobufDeserializer(RegisteredDeserializer[MessageClasses]):
    """Deserialize values as messages: of a generated class, or of the writer's schema."""

    def __init__(
        self,
        registry: SchemaRegistry,
        message_type: type[Message] | None = None,
        *,
        as_dict: bool = False,
        cached_max: int = CACHED_MAX,
    ) -> None:
        """With `message_type`, values are read as this class, and no schema is fetched.

        With `as_dict`, values are dicts, see `to_dict`.
        """
        super().__init__(registry, cached_max=cached_max)
        self._kind = message_type
        self._as_dict = as_dict

    def __call__(self, raw: bytes) -> Any:
        schema_id = schema_id_of(raw)
        try:
            indexes, position = decode_indexes(raw, PREFIX_BYTES)
            kind = self._kind or self._schema_of(schema_id).at(indexes)
            message = kind()
            message.ParseFromString(raw[position:])
        except (DecodeError, InvalidSchema, ValueError) as error:
            raise SerializationFailed(
                f"cannot deserialize value with schema {schema_id}: {error}"
            ) from error
        return to_dict(message) if self._as_dict else message

    def _parsed(self, schema: RegisteredSchema) -> MessageClasses:
        return registered_classes(self._registry, schema)


def registered_classes(registry: SchemaRegistry, schema: RegisteredSchema) -> MessageClasses:
    """The classes of a registered schema and its references."""
    if schema.schema_type != _TYPE:
        raise SerializationFailed(f"schema {schema.id} has type {schema.schema_type}, not {_TYPE}")
    referred = {name: each.schema for name, each in referred_schemas(registry, schema.references)}
    try:
        return MessageClasses(read_schema(schema.schema, referred.items()))
    except InvalidSchema as error:
        raise SerializationFailed(str(error)) from error


def _message(value: Any, kind: type[Message]) -> Message:
    if isinstance(value, Mapping):
        return json_format.ParseDict(dict(value), kind())
    if not isinstance(value, Message):
        raise TypeError(f"expected a message or a dict, got {type(value).__name__}")
    if value.DESCRIPTOR.full_name != kind.DESCRIPTOR.full_name:
        raise TypeError(
            f"expected a {kind.DESCRIPTOR.full_name}, got a {value.DESCRIPTOR.full_name}"
        )
    return value


def _text_of(file: Any) -> str:
    return canonical(read_descriptor(file.serialized_pb))


def _first_name(text: str) -> str | None:
    try:
        file = read_file(text)
    except InvalidSchema as error:
        raise InvalidSetting(str(error)) from error
    return joined(file.package, file.messages[0].name) if file.messages else None
