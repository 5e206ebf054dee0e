"""Shared by registry serializers: wire format, subjects, schema ids, caches.

    +------+----------------------+------------------------------
    | 0x00 | schema id, int32     | the value in its own format
    +------+----------------------+------------------------------
      1 byte  4 bytes, big-endian

Note: serializers of this library receive a value but not its topic, so the topic, from which the
default subject name derives, is an argument of the serializer.
"""

import json
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypedDict, TypeVar

from headwater.client.errors import InvalidArgument, SerializationFailed
from headwater.client.schema_registry import (
    RegisteredSchema,
    SchemaNotFound,
    SchemaReference,
    SchemaRegistry,
)
from headwater.common.exceptions import InvalidSetting

MAGIC: Final = 0
PREFIX_BYTES: Final = 5
CACHED_MAX: Final = 1000

T = TypeVar("T")


def topic_subject(topic: str | None, record: str | None, *, is_key: bool) -> str:
    """TopicNameStrategy, the default: `tea-value`."""
    del record
    return f"{_needed(topic, 'a topic')}-{'key' if is_key else 'value'}"


def record_subject(topic: str | None, record: str | None, *, is_key: bool) -> str:
    """RecordNameStrategy: `shop.Tea`, the same schema in every topic."""
    del topic, is_key
    return _needed(record, "a schema with a name")


def topic_record_subject(topic: str | None, record: str | None, *, is_key: bool) -> str:
    """TopicRecordNameStrategy: `tea-shop.Tea`, several types in a topic."""
    del is_key
    return f"{_needed(topic, 'a topic')}-{_needed(record, 'a schema with a name')}"


SubjectNaming = Callable[..., str]


def _needed(given: str | None, what: str) -> str:
    if not given:
        raise InvalidSetting(f"this subject name strategy requires {what}")
    return given


class SerializerOptions(TypedDict, total=False):
    """Options of all serializers with a registry; see `RegisteredSerializer`."""

    topic: str | None
    is_key: bool
    subject: str | SubjectNaming
    references: tuple[SchemaReference, ...]
    auto_register: bool
    use_latest_version: bool
    normalize: bool


class RegisteredSerializer(ABC, Generic[T]):
    """Base of serializers: looks up the schema with the first value, and caches it.

    `T` is the parsed schema of a format. Thread-safe.
    """

    schema_type = "AVRO"

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | Mapping[str, Any] | bool | None = None,
        *,
        topic: str | None = None,
        is_key: bool = False,
        subject: str | SubjectNaming = topic_subject,
        references: tuple[SchemaReference, ...] = (),
        auto_register: bool = True,
        use_latest_version: bool = False,
        normalize: bool = False,
    ) -> None:
        """`subject` is a name, or one of the naming strategies of this module.

        Without `auto_register` the schema must be registered already. `use_latest_version` uses
        the latest version of the subject, and needs no schema here.
        """
        self._registry = registry
        self._text = schema if schema is None or isinstance(schema, str) else json.dumps(schema)
        if self._text is None and not use_latest_version:
            raise InvalidSetting("a serializer requires a schema or use_latest_version")
        self._references = references
        self._auto_register = auto_register and not use_latest_version
        self._use_latest_version = use_latest_version
        self._normalize = normalize
        self._subject = subject
        self._topic = topic
        self._is_key = is_key
        self._lock = threading.Lock()
        self._ready: tuple[bytes, T] | None = None
        # Report errors of the settings now, not with the first value.
        self._subject_name()

    def _prepared(self) -> tuple[bytes, T]:
        """The prefix of values, and the parsed schema."""
        if self._ready is not None:
            return self._ready
        with self._lock:
            if self._ready is None:
                found = self._registered()
                self._ready = (bytes([MAGIC]) + found.id.to_bytes(4, "big"), self._parsed(found))
            return self._ready

    @abstractmethod
    def _parsed(self, schema: RegisteredSchema) -> T:
        """Parse the schema."""

    @abstractmethod
    def _record_name(self, text: str | None) -> str | None:
        """The record name in the schema, if it has one."""

    def _registered(self) -> RegisteredSchema:
        subject = self._subject_name()
        if self._use_latest_version:
            return self._registry.version(subject)
        assert self._text is not None
        if not self._auto_register:
            return self._registry.look_up(
                subject,
                self._text,
                self._references,
                schema_type=self.schema_type,
                normalize=self._normalize,
            )
        schema_id = self._registry.register(
            subject,
            self._text,
            self._references,
            schema_type=self.schema_type,
            normalize=self._normalize,
        )
        return RegisteredSchema(
            id=schema_id,
            schema=self._text,
            schema_type=self.schema_type,
            references=self._references,
        )

    def _subject_name(self) -> str:
        if isinstance(self._subject, str):
            return self._subject
        return self._subject(self._topic, self._record_name(self._text), is_key=self._is_key)


class RegisteredDeserializer(ABC, Generic[T]):
    """Base of deserializers: finds the writer's schema of a value. Thread-safe."""

    def __init__(self, registry: SchemaRegistry, *, cached_max: int = CACHED_MAX) -> None:
        self._registry = registry
        self._schemas: BoundedCache[T] = BoundedCache(cached_max)

    def _schema_of(self, schema_id: int) -> T:
        return self._schemas.get(schema_id, self._fetched)

    @abstractmethod
    def _parsed(self, schema: RegisteredSchema) -> T:
        """Parse the schema."""

    def _fetched(self, schema_id: int) -> T:
        try:
            found = self._registry.schema(schema_id)
        except SchemaNotFound as error:
            raise SerializationFailed(f"the registry has no schema with id {schema_id}") from error
        return self._parsed(found)


def schema_id_of(raw: bytes) -> int:
    """The schema id in the prefix of a value."""
    if len(raw) < PREFIX_BYTES or raw[0] != MAGIC:
        raise SerializationFailed("the value does not start with byte 0 and a schema id")
    return int.from_bytes(raw[1:PREFIX_BYTES], "big")


class BoundedCache(Generic[T]):
    """An LRU cache. Thread-safe."""

    def __init__(self, count_max: int) -> None:
        if count_max < 1:
            raise InvalidArgument("cached_max must be at least 1")
        self._count_max = count_max
        self._lock = threading.Lock()
        self._found: OrderedDict[int, T] = OrderedDict()

    def get(self, number: int, make: Callable[[int], T]) -> T:
        with self._lock:
            if number in self._found:
                self._found.move_to_end(number)
                return self._found[number]
        # Without the lock, so that other threads do not wait for the registry.
        made = make(number)
        with self._lock:
            self._found[number] = made
            while len(self._found) > self._count_max:
                self._found.popitem(last=False)
        return made


def referred_schemas(
    registry: SchemaRegistry, references: tuple[SchemaReference, ...]
) -> list[tuple[str, RegisteredSchema]]:
    """All referenced schemas with their names, dependencies first."""
    found: list[tuple[str, RegisteredSchema]] = []
    _add_referred(registry, references, found, set())
    return found


def _add_referred(
    registry: SchemaRegistry,
    references: tuple[SchemaReference, ...],
    into: list[tuple[str, RegisteredSchema]],
    done: set[SchemaReference],
) -> None:
    for each in references:
        if each in done:
            continue
        done.add(each)
        found = registry.version(each.subject, each.version, deleted=True)
        _add_referred(registry, found.references, into, done)
        into.append((each.name, found))
