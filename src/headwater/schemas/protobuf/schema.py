"""The tree of a .proto file, as written: type names are not resolved.

Like Square's Wire, whose parser Confluent's registry uses, a message keeps its fields, oneofs and
nested types apart, each in their order. Comments are not part of the tree.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

MAX_TAG: Final = (1 << 29) - 1
"""The largest field number, which `max` stands for."""

SCALARS: Final = frozenset(
    [
        "bool",
        "bytes",
        "double",
        "fixed32",
        "fixed64",
        "float",
        "int32",
        "int64",
        "sfixed32",
        "sfixed64",
        "sint32",
        "sint64",
        "string",
        "uint32",
        "uint64",
    ]
)


class LiteralKind(Enum):
    """How a value is written."""

    STRING = "string"
    BOOLEAN = "boolean"
    NUMBER = "number"
    # An identifier: an enum's value, `inf` or `nan`.
    WORD = "word"


@dataclass(frozen=True, slots=True)
class Literal:
    """A plain value. Numbers keep their text; strings are without quotes and escapes."""

    kind: LiteralKind
    text: str


@dataclass(frozen=True, slots=True)
class ListValue:
    """`[1, 2]`."""

    items: "tuple[Value, ...]"


@dataclass(frozen=True, slots=True)
class MapValue:
    """`{a: 1, b: "x"}`: a message in text format, each key once."""

    entries: "tuple[tuple[str, Value], ...]"


Value = Literal | ListValue | MapValue


@dataclass(frozen=True, slots=True)
class NamePart:
    """A part of an option's name; custom options are in parentheses."""

    name: str
    is_custom: bool = False

    def __str__(self) -> str:
        return f"({self.name})" if self.is_custom else self.name


@dataclass(frozen=True, slots=True)
class Option:
    """`deprecated = true`, or `(my.option).part = 1`, whose name has two parts."""

    name: tuple[NamePart, ...]
    value: Value

    @property
    def plain_name(self) -> str | None:
        """The name of an option that is not custom, with its dots."""
        if any(each.is_custom for each in self.name):
            return None
        return ".".join(each.name for each in self.name)


@dataclass(frozen=True, slots=True)
class MapType:
    """`map<string, int32>`."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


FieldType = str | MapType


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    number: int
    type: FieldType
    """A scalar, a map, or the name of a message or enum; a leading dot makes it absolute."""
    label: str | None = None
    """`optional`, `required`, `repeated` or None."""
    default: Literal | None = None
    json_name: str | None = None
    options: tuple[Option, ...] = ()
    is_group: bool = False
    """Whether it is declared with its message, which is a nested type of the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oneof:
    name: str
    fields: tuple[Field, ...] = ()
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Field numbers, both inclusive; `is_single` if it was written as one number."""

    first: int
    last: int
    is_single: bool = False


@dataclass(frozen=True, slots=True)
class Reserved:
    """`reserved 1, 5 to 9, "name";`."""

    values: tuple[NumberRange | str, ...]


@dataclass(frozen=True, slots=True)
class Extensions:
    """`extensions 100 to max;`."""

    ranges: tuple[NumberRange, ...]
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Extend:
    """`extend Message { ... }`."""

    name: str
    fields: tuple[Field, ...]
    groups: "tuple[MessageType, ...]" = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumValue:
    name: str
    number: int
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumType:
    name: str
    values: tuple[EnumValue, ...] = ()
    options: tuple[Option, ...] = ()
    reserved: tuple[Reserved, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageType:
    name: str
    fields: tuple[Field, ...] = ()
    oneofs: tuple[Oneof, ...] = ()
    messages: "tuple[MessageType, ...]" = ()
    enums: tuple[EnumType, ...] = ()
    extensions: tuple[Extensions, ...] = ()
    extends: tuple[Extend, ...] = ()
    reserved: tuple[Reserved, ...] = ()
    options: tuple[Option, ...] = ()
    is_group: bool = False
    """Whether it belongs to a group field, with which it is printed."""

    def all_fields(self) -> Iterator[tuple[Field, Oneof | None]]:
        """The fields, and which oneof they are in."""
        for each in self.fields:
            yield each, None
        for oneof in self.oneofs:
            for each in oneof.fields:
                yield each, oneof

    @property
    def is_map_entry(self) -> bool:
        """Whether it stands for an entry of a map, as in descriptors."""
        return any(
            each.plain_name == "map_entry"
            and isinstance(each.value, Literal)
            and each.value.text == "true"
            for each in self.options
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rpc:
    name: str
    request: str
    response: str
    is_request_stream: bool = False
    is_response_stream: bool = False
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcService:
    name: str
    rpcs: tuple[Rpc, ...] = ()
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoFile:
    """A whole file. Without `syntax` and `edition` it is proto2."""

    syntax: str | None = None
    edition: str | None = None
    package: str = ""
    imports: tuple[str, ...] = ()
    public_imports: tuple[str, ...] = ()
    weak_imports: tuple[str, ...] = ()
    messages: tuple[MessageType, ...] = ()
    enums: tuple[EnumType, ...] = ()
    extends: tuple[Extend, ...] = ()
    services: tuple[RpcService, ...] = ()
    options: tuple[Option, ...] = ()

    @property
    def is_proto3(self) -> bool:
        return self.syntax == "proto3"

    @property
    def all_imports(self) -> tuple[str, ...]:
        return (*self.imports, *self.public_imports, *self.weak_imports)
