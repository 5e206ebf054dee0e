"""JSON Schemas as a tree, for the comparison of one with another.

A schema says several things at once (`enum` beside `type` beside `anyOf`); where it does, it is
read as an `allOf` of its parts, as Confluent's registry reads it. Words that forbid nothing
(`title`, `format`, what nobody knows) are not in the tree.

What a reader would get wrong: a schema may contain itself, so what a `$ref` leads to is filled in
after all has been read, and schemas are compared by identity and never by value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

Number = int | Decimal


Names = Mapping[str, None]
"""Texts in the order in which they were written, each found at once: lists of them are long."""


@dataclass(frozen=True, slots=True, eq=False)
class Anything:
    """Forbids nothing: `true`, or a schema without a word that counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Nothing:
    """Forbids everything: `false`."""


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """`boolean` or `null`, about which there is no more to say."""

    kind: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Text:
    is_typed: bool = True
    """Whether it must be one; else this is what it must be if it is one."""
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Numeric:
    is_typed: bool = True
    is_integer: bool = False
    minimum: Number | None = None
    maximum: Number | None = None
    exclusive_minimum: Number | None = None
    exclusive_maximum: Number | None = None
    multiple_of: Number | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """`enum` and `const`: values, each in the one text that equal ones share."""

    texts: Names


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Combined:
    """`allOf`, `anyOf` or `oneOf`. One that nobody has written joins what stands side by side."""

    criterion: str
    parts: tuple["Json", ...]
    is_written: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Negated:
    inner: "Json"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Conditional:
    condition: "Json"
    then: "Json"
    otherwise: "Json"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Property:
    schema: "Json"
    has_default: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Object:
    is_typed: bool = True
    properties: Mapping[str, Property] = field(default_factory=dict)
    required: Names = field(default_factory=dict)
    patterns: Mapping[str, "Json"] = field(default_factory=dict)
    rest: "Json"
    """What properties must be that are neither named nor match a pattern."""
    rest_keyword: str = "additionalProperties"
    names: "Json"
    min_properties: int | None = None
    max_properties: int | None = None
    dependent_names: Mapping[str, Names] = field(default_factory=dict)
    dependent_schemas: Mapping[str, "Json"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Array:
    is_typed: bool = True
    places: tuple["Json", ...] = ()
    """What the first items must be, one by one."""
    rest: "Json"
    """What all others must be."""
    rest_keyword: str = "items"
    contains: "Json | None" = None
    min_contains: int = 1
    max_contains: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    is_unique: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Foreign:
    """A schema that everybody has and nobody looks into: a schema of schemas."""

    uri: str


@dataclass(slots=True, eq=False)
class Referral:
    """What a `$ref` says; `target` is never another one."""

    target: "Target | None" = None


Target = (
    Anything
    | Nothing
    | Plain
    | Text
    | Numeric
    | Values
    | Combined
    | Negated
    | Conditional
    | Object
    | Array
    | Foreign
)
Json = Target | Referral

ANYTHING: Final = Anything()
NOTHING: Final = Nothing()


def meant(schema: Json) -> Target:
    """The schema itself, where another one refers to it."""
    if isinstance(schema, Referral):
        assert schema.target is not None
        return schema.target
    return schema


def type_name(schema: Target) -> str:
    """What a person would call it."""
    match schema:
        case Anything():
            return "anything"
        case Nothing():
            return "nothing"
        case Plain():
            return schema.kind
        case Text():
            return "string"
        case Numeric():
            return "integer" if schema.is_integer else "number"
        case Values():
            return "enum"
        case Combined():
            return schema.criterion if schema.is_written else _joined(schema)
        case Negated():
            return "not"
        case Conditional():
            return "if"
        case Object():
            return "object"
        case Array():
            return "array"
        case Foreign():
            return schema.uri


def _joined(schema: Combined) -> str:
    """Of what stands side by side, the words that name a type; a part may be all of it again."""
    parts = [each for each in schema.parts if not isinstance(each, Combined | Referral)]
    return " with ".join(type_name(each) for each in parts) or schema.criterion
