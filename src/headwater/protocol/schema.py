"""Declare messages: one class for all versions.

    @protocol_message
    class Topic:
        name: str = one("string", default="")
        topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=10)
        partitions: tuple[Partition, ...] = many(Partition, default=())

Each field declares the versions that have it and its type; in other versions it has its default.
The order of the fields is their order on the wire. Notes:

- A field that was removed in some version (`until`) is still a field of the class, so a change of
  *meaning* between versions must not be declared this way. It gets its own class and a `lift` (see
  `older_versions`).
- Message classes are frozen for mypy only. The constructor of a frozen dataclass takes three times
  as long, and every Produce request creates several messages.

There are hundreds of message classes, and every process creates many of them at its start. So they
share `__repr__`, `__eq__` and `__hash__`, which `dataclass` would generate and compile for each.
"""

from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Final, TypeVar, dataclass_transform

ANY_VERSION: Final = 32767
_KEY: Final = "wire"
_AS_DEFAULT: Final = object()

T = TypeVar("T")
Kind = str | type


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolField:
    """Wire format of a field; `kind` is a primitive's name or a message class."""

    name: str = ""
    kind: Kind
    repeated: bool
    default: object
    # Value if the tagged field is absent.
    absent: object
    since: int
    until: int
    nullable_since: int | None
    tag: int | None
    tag_since: int
    ignorable: bool
    shared: bool = False

    def travels_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    def is_nullable_in(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since

    def is_tagged_in(self, version: int) -> bool:
        return self.tag is not None and version >= self.tag_since


def one(
    kind: Kind,
    *,
    default: T,
    since: int = 0,
    until: int = ANY_VERSION,
    nullable_since: int | None = None,
    tag: int | None = None,
    tag_since: int = 0,
    absent: object = _AS_DEFAULT,
    ignorable: bool = False,
) -> T:
    """Declare a field with one value.

    An `ignorable` field is dropped silently in a version without it. Any other must then be at its
    default, or the message cannot be encoded in that version. An absent tagged field has the
    default, or the value of `absent`.
    """
    wire = ProtocolField(
        kind=kind,
        repeated=False,
        default=default,
        absent=default if absent is _AS_DEFAULT else absent,
        since=since,
        until=until,
        nullable_since=nullable_since,
        tag=tag,
        tag_since=tag_since,
        ignorable=ignorable,
    )
    return field(default=default, metadata={_KEY: wire})


def many(
    kind: Kind,
    *,
    default: T,
    since: int = 0,
    until: int = ANY_VERSION,
    nullable_since: int | None = None,
    tag: int | None = None,
    tag_since: int = 0,
    ignorable: bool = False,
    shared: bool = False,
) -> T:
    """Declare a field with an array of values, kept as a tuple.

    A `shared` one goes to many receivers, each in its own message: the bytes of the last tuple are
    cached and written again when the same tuple comes next.
    """
    wire = ProtocolField(
        kind=kind,
        repeated=True,
        default=default,
        absent=default,
        since=since,
        until=until,
        nullable_since=nullable_since,
        tag=tag,
        tag_since=tag_since,
        ignorable=ignorable,
        shared=shared,
    )
    return field(default=default, metadata={_KEY: wire})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(one, many))
def protocol_message(cls: type[T]) -> type[T]:
    """Turn a class of `one` and `many` fields into a message or nested struct."""
    if cls.__doc__ is None:
        # Otherwise `dataclass` generates one from the signature, which takes longer than all the
        # rest.
        cls.__doc__ = cls.__name__
    made = dataclass(slots=True, kw_only=True, repr=False, eq=False)(cls)
    for name, shared in _SHARED.items():
        setattr(made, name, shared)
    return made


def _values(message: Any) -> list[object]:
    return [getattr(message, name) for name in type(message).__slots__]


def _repr(self: Any) -> str:
    named = zip(type(self).__slots__, _values(self), strict=True)
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in named)})"


def _eq(self: object, other: object) -> bool:
    if type(other) is not type(self):
        # Messages are equal only to messages, so the reflected comparison is not needed.
        return False
    return self is other or _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(tuple(_values(self)))


_SHARED: Final = {"__repr__": _repr, "__eq__": _eq, "__hash__": _hash}


def wire_fields(cls: type) -> list[ProtocolField]:
    """Return the fields of a message class in wire order."""
    return [replace(_declared(each), name=each.name) for each in fields(cls)]


def _declared(each: Field[object]) -> ProtocolField:
    wire = each.metadata[_KEY]
    assert isinstance(wire, ProtocolField)
    return wire
