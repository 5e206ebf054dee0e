"""Avro values with their schemas in a registry: Confluent's wire format, for both kinds of clients.

    registry = SchemaRegistry("http://localhost:8081")
    producer = Producer(
        bootstrap_servers="localhost:9092",
        value_serializer=AvroSerializer(registry, SCHEMA, topic="tea"),
    )
    consumer = Consumer(
        bootstrap_servers="localhost:9092", value_deserializer=AvroDeserializer(registry)
    )

    +------+----------------------+---------------------
    | 0x00 | the schema's id, int | the value in Avro
    +------+----------------------+---------------------
      1 byte  4 bytes, big-endian

What a reader would get wrong: a serializer of this library is given a value and not its topic, so
the topic, which most subjects are named after, is said when the serializer is made.
"""

import io
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from headwater.client.errors import InvalidArgument, SerializationFailed
from headwater.client.schema_registry import (
    RegisteredSchema,
    SchemaNotFound,
    SchemaReference,
    SchemaRegistry,
)
from headwater.model.failures import InvalidSetting

try:
    import fastavro
    from fastavro.schema import SchemaParseException
    from fastavro.validation import ValidationError
except ImportError as error:
    raise InvalidSetting("fastavro is missing; pip install 'headwater[avro]' has it") from error

MAGIC: Final = 0
_PREFIX_BYTES: Final = 5
_CACHED_MAX: Final = 1000

T = TypeVar("T")
Schema = Any

# What fastavro raises for values that do not fit, and for bytes that are none of the schema's.
_MISFITS: Final = (
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    IndexError,
    EOFError,
    OverflowError,
    RecursionError,
    fastavro.read.SchemaResolutionError,
    ValidationError,
)


def topic_subject(topic: str | None, record: str | None, *, is_key: bool) -> str:
    """`tea-value`: one kind of value in a topic. The usual way."""
    del record
    return f"{_needed(topic, 'a topic')}-{'key' if is_key else 'value'}"


def record_subject(topic: str | None, record: str | None, *, is_key: bool) -> str:
    """`shop.Tea`: the same schema in every topic."""
    del topic, is_key
    return _needed(record, "a schema with a name")


def topic_record_subject(topic: str | None, record: str | None, *, is_key: bool) -> str:
    """`tea-shop.Tea`: several kinds of values in a topic, each with versions of its own."""
    del is_key
    return f"{_needed(topic, 'a topic')}-{_needed(record, 'a schema with a name')}"


SubjectNaming = Callable[..., str]


def _needed(given: str | None, what: str) -> str:
    if not given:
        raise InvalidSetting(f"this way to name subjects needs {what}")
    return given


class AvroSerializer:
    """Values to bytes. A function, as `key_serializer` and `value_serializer` want it."""

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | Mapping[str, Any] | None = None,
        *,
        topic: str | None = None,
        is_key: bool = False,
        subject: str | SubjectNaming = topic_subject,
        references: tuple[SchemaReference, ...] = (),
        auto_register: bool = True,
        use_latest_version: bool = False,
        normalize: bool = False,
    ) -> None:
        """`subject` is a name, or one of the functions of this module that make names.

        Without `auto_register` the schema must be there already. `use_latest_version` takes what
        the subject has, and needs no schema here.
        """
        self._registry = registry
        self._text = schema if schema is None or isinstance(schema, str) else json.dumps(schema)
        if self._text is None and not use_latest_version:
            raise InvalidSetting("an Avro serializer needs a schema, or use_latest_version")
        self._references = references
        self._auto_register = auto_register and not use_latest_version
        self._use_latest_version = use_latest_version
        self._normalize = normalize
        self._subject = subject
        self._topic = topic
        self._is_key = is_key
        self._lock = threading.Lock()
        self._ready: tuple[bytes, Schema] | None = None
        # What can be wrong with the settings alone is told now, and not with the first value.
        self._subject_name()

    def __call__(self, value: Any) -> bytes:
        prefix, schema = self._ready or self._prepare()
        data = io.BytesIO()
        data.write(prefix)
        try:
            # The writer itself would write an int of 40 bits, which others cannot read.
            fastavro.validate(value, schema, raise_errors=True)
            fastavro.schemaless_writer(data, schema, value, strict_allow_default=True)
        except _MISFITS as error:
            raise SerializationFailed(f"the value does not fit its Avro schema: {error}") from error
        return data.getvalue()

    def _prepare(self) -> tuple[bytes, Schema]:
        with self._lock:
            if self._ready is None:
                found = self._registered()
                schema = parsed_schema(self._registry, found)
                self._ready = (bytes([MAGIC]) + found.id.to_bytes(4, "big"), schema)
            return self._ready

    def _registered(self) -> RegisteredSchema:
        subject = self._subject_name()
        if self._use_latest_version:
            return self._registry.version(subject)
        assert self._text is not None
        if not self._auto_register:
            return self._registry.look_up(
                subject, self._text, self._references, normalize=self._normalize
            )
        schema_id = self._registry.register(
            subject, self._text, self._references, normalize=self._normalize
        )
        return RegisteredSchema(id=schema_id, schema=self._text, references=self._references)

    def _subject_name(self) -> str:
        if isinstance(self._subject, str):
            return self._subject
        return self._subject(self._topic, _record_name(self._text), is_key=self._is_key)


class AvroDeserializer:
    """Bytes to values, with the writer's schema from the registry."""

    def __init__(
        self,
        registry: SchemaRegistry,
        reader_schema: str | Mapping[str, Any] | None = None,
        *,
        cached_max: int = _CACHED_MAX,
    ) -> None:
        """With a reader's schema, values are as that says, whatever version wrote them."""
        self._registry = registry
        given = json.loads(reader_schema) if isinstance(reader_schema, str) else reader_schema
        self._reader: Schema = None if given is None else _parsed(given, {})
        self._schemas: _Remembered[Schema] = _Remembered(cached_max)

    def __call__(self, raw: bytes) -> Any:
        if len(raw) < _PREFIX_BYTES or raw[0] != MAGIC:
            raise SerializationFailed("the value does not begin with 0 and the id of a schema")
        schema_id = int.from_bytes(raw[1:_PREFIX_BYTES], "big")
        writer = self._schemas.get(schema_id, self._fetched)
        data = io.BytesIO(raw)
        data.seek(_PREFIX_BYTES)
        try:
            value = fastavro.schemaless_reader(data, writer, self._reader)
        except _MISFITS as error:
            raise SerializationFailed(
                f"the value cannot be read with schema {schema_id}: {error}"
            ) from error
        if data.tell() != len(raw):
            raise SerializationFailed(f"the value is longer than schema {schema_id} says")
        return value

    def _fetched(self, schema_id: int) -> Schema:
        try:
            found = self._registry.schema(schema_id)
        except SchemaNotFound as error:
            raise SerializationFailed(f"the registry has no schema {schema_id}") from error
        return parsed_schema(self._registry, found)


class _Remembered(Generic[T]):
    """The values used last, and no more of them than there may be. Safe between threads."""

    def __init__(self, count_max: int) -> None:
        if count_max < 1:
            raise InvalidArgument("a cache holds at least one schema")
        self._count_max = count_max
        self._lock = threading.Lock()
        self._found: OrderedDict[int, T] = OrderedDict()

    def get(self, number: int, make: Callable[[int], T]) -> T:
        with self._lock:
            if number in self._found:
                self._found.move_to_end(number)
                return self._found[number]
        # Made without the lock: who asks for another one does not wait for the registry.
        made = make(number)
        with self._lock:
            self._found[number] = made
            while len(self._found) > self._count_max:
                self._found.popitem(last=False)
        return made


def parsed_schema(registry: SchemaRegistry, schema: RegisteredSchema) -> Schema:
    """A schema as fastavro wants it, with all that it refers to."""
    if schema.schema_type != "AVRO":
        raise SerializationFailed(f"schema {schema.id} is of the type {schema.schema_type}")
    names: dict[str, Any] = {}
    _add_references(registry, schema.references, names, set())
    return _parsed(json.loads(schema.schema), names)


def _add_references(
    registry: SchemaRegistry,
    references: tuple[SchemaReference, ...],
    names: dict[str, Any],
    done: set[tuple[str, int]],
) -> None:
    for each in references:
        place = (each.subject, each.version)
        if place in done:
            continue
        done.add(place)
        found = registry.version(each.subject, each.version, deleted=True)
        _add_references(registry, found.references, names, done)
        _parsed(json.loads(found.schema), names)


def _parsed(schema: Any, names: dict[str, Any]) -> Schema:
    try:
        return fastavro.parse_schema(schema, named_schemas=names)
    except (SchemaParseException, *_MISFITS) as error:
        raise SerializationFailed(f"this is no Avro schema: {error}") from error


def _record_name(text: str | None) -> str | None:
    """The full name of a schema that has one."""
    if text is None:
        return None
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InvalidSetting(f"an Avro schema is JSON: {error}") from error
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        return None
    name: str = given["name"]
    namespace = given.get("namespace")
    return f"{namespace}.{name}" if namespace and "." not in name else name
