"""What serializers with a schema registry share, whatever their format: subjects, ids, caches.

    +------+----------------------+------------------------------
    | 0x00 | the schema's id, int | the value in its own format
    +------+----------------------+------------------------------
      1 byte  4 bytes, big-endian

What a reader would get wrong: a serializer of this library is given a value and not its topic, so
the topic, which most subjects are named after, is said when the serializer is made.
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


class SerializerOptions(TypedDict, total=False):
    """What all serializers with a registry take; `RegisteredSerializer` says what it means."""

    topic: str | None
    is_key: bool
    subject: str | SubjectNaming
    references: tuple[SchemaReference, ...]
    auto_register: bool
    use_latest_version: bool
    normalize: bool


class RegisteredSerializer(ABC, Generic[T]):
    """Finds the schema to write with when the first value comes, and remembers it.

    `T` is what a format makes of a schema. Safe between threads.
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
        """`subject` is a name, or one of the functions of this module that make names.

        Without `auto_register` the schema must be there already. `use_latest_version` takes what
        the subject has, and needs no schema here.
        """
        self._registry = registry
        self._text = schema if schema is None or isinstance(schema, str) else json.dumps(schema)
        if self._text is None and not use_latest_version:
            raise InvalidSetting("a serializer needs a schema, or use_latest_version")
        self._references = references
        self._auto_register = auto_register and not use_latest_version
        self._use_latest_version = use_latest_version
        self._normalize = normalize
        self._subject = subject
        self._topic = topic
        self._is_key = is_key
        self._lock = threading.Lock()
        self._ready: tuple[bytes, T] | None = None
        # What can be wrong with the settings alone is told now, and not with the first value.
        self._subject_name()

    def _prepared(self) -> tuple[bytes, T]:
        """What a value begins with, and what it is written with."""
        if self._ready is not None:
            return self._ready
        with self._lock:
            if self._ready is None:
                found = self._registered()
                self._ready = (bytes([MAGIC]) + found.id.to_bytes(4, "big"), self._parsed(found))
            return self._ready

    @abstractmethod
    def _parsed(self, schema: RegisteredSchema) -> T:
        """The schema, as the format wants it."""

    @abstractmethod
    def _record_name(self, text: str | None) -> str | None:
        """What the schema calls its values, if anything."""

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
    """Finds the schema that a value was written with. Safe between threads."""

    def __init__(self, registry: SchemaRegistry, *, cached_max: int = CACHED_MAX) -> None:
        self._registry = registry
        self._schemas: BoundedCache[T] = BoundedCache(cached_max)

    def _schema_of(self, schema_id: int) -> T:
        return self._schemas.get(schema_id, self._fetched)

    @abstractmethod
    def _parsed(self, schema: RegisteredSchema) -> T:
        """The schema, as the format wants it."""

    def _fetched(self, schema_id: int) -> T:
        try:
            found = self._registry.schema(schema_id)
        except SchemaNotFound as error:
            raise SerializationFailed(f"the registry has no schema {schema_id}") from error
        return self._parsed(found)


def schema_id_of(raw: bytes) -> int:
    """The id that a value begins with."""
    if len(raw) < PREFIX_BYTES or raw[0] != MAGIC:
        raise SerializationFailed("the value does not begin with 0 and the id of a schema")
    return int.from_bytes(raw[1:PREFIX_BYTES], "big")


class BoundedCache(Generic[T]):
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


def referred_schemas(
    registry: SchemaRegistry, references: tuple[SchemaReference, ...]
) -> list[tuple[str, RegisteredSchema]]:
    """All that a schema refers to with its name there, and before each what that refers to."""
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
