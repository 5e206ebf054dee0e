"""How a message is declared: one class for all its versions.

    @shape
    class Topic:
        name: str = one("string", default="")
        topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=10)
        partitions: tuple[Partition, ...] = many(Partition, default=())

Each field knows in which versions it travels and how; a version that lacks it leaves it at its
default. The order of the fields is their order on the wire. Two things are easily got wrong:

- A field that was removed in some version (`until`) is still a field of the shape, so a change of
  *meaning* between versions must not be declared this way. It gets a shape of its own and a lift
  (see `older_versions`).
- Shapes are frozen by mypy alone. The constructor of a dataclass that is frozen at run time takes
  three times as long, and on the way of every Produce request several are made.

There are hundreds of shapes, and every process that speaks the wire makes many of them at its
start. So they share how they are shown, compared and hashed, which `dataclass` would write and
compile for each.
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
    """How one field travels. `kind` is a primitive's name or the shape of a nested struct."""

    name: str = ""
    kind: Kind
    repeated: bool
    default: object
    # What it means that a tag does not travel.
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
    """A field with one value.

    An `ignorable` field is dropped without a word when a version cannot carry it. Any other must
    then be at its default, or the message cannot be written in that version. A tag that is left
    out stands for the default, or for what `absent` says.
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
    """A field with an array of values, kept as a tuple.

    A `shared` one goes to many receivers, each in a message of its own: the bytes of the last tuple
    are kept, and written again when the same tuple comes next.
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
    """Makes a class of `one` and `many` fields a message, or a part of one."""
    if cls.__doc__ is None:
        # Else `dataclass` writes one, from a signature that takes longer to find than all the rest.
        cls.__doc__ = cls.__name__
    made = dataclass(slots=True, kw_only=True, repr=False, eq=False)(cls)
    for name, shared in _SHARED.items():
        setattr(made, name, shared)
    return made


def _values(message: Any) -> list[object]:
    return [getattr(message, name) for name in type(message).__slots__]


def _shown(self: Any) -> str:
    named = zip(type(self).__slots__, _values(self), strict=True)
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in named)})"


def _is_equal(self: object, other: object) -> bool:
    if type(other) is not type(self):
        # Shapes compare with nothing else, so nobody needs to be asked the other way round.
        return False
    return self is other or _values(self) == _values(other)


def _hashed(self: object) -> int:
    return hash(tuple(_values(self)))


_SHARED: Final = {"__repr__": _shown, "__eq__": _is_equal, "__hash__": _hashed}


def wire_fields(cls: type) -> list[ProtocolField]:
    """The fields of a shape in the order in which they travel."""
    return [replace(_declared(each), name=each.name) for each in fields(cls)]


def _declared(each: Field[object]) -> ProtocolField:
    wire = each.metadata[_KEY]
    assert isinstance(wire, ProtocolField)
    return wire
