"""The tree of a JSON Schema, built for comparisons.

A schema with several constraints (`enum` beside `type` beside `anyOf`) is represented as an `allOf`
of its parts, as in Confluent's registry. Keywords without constraints (`title`, `format`, unknown
ones) are omitted.

Note: a schema may contain itself, so the target of a `$ref` is set after everything is parsed, and
schemas are compared by identity, never by value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

Number = int | Decimal


Names = Mapping[str, None]
"""An ordered set of names, with fast membership tests, since such lists may be long."""


@dataclass(frozen=True, slots=True, eq=False)
class Anything:
    """`true`, or a schema without constraints."""


@dataclass(frozen=True, slots=True, eq=False)
class Nothing:
    """`false`."""


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """`boolean` or `null`, which have no further constraints."""

    kind: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Text:
    is_typed: bool = True
    """Whether the type is required; otherwise the constraints apply only to values of it."""
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
    """`enum` and `const`: values in the text form that equal values share."""

    texts: Names


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Combined:
    """`allOf`, `anyOf` or `oneOf`. `is_written` is False for an implicit `allOf`."""

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
    """Schema of properties that are neither declared nor match a pattern."""
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
    """Schemas of the first items, by position."""
    rest: "Json"
    """Schema of all other items."""
    rest_keyword: str = "items"
    contains: "Json | None" = None
    min_contains: int = 1
    max_contains: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    is_unique: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Foreign:
    """A meta-schema, which is not examined."""

    uri: str


@dataclass(slots=True, eq=False)
class Referral:
    """A `$ref`; its `target` is never another `Referral`."""

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
    """The schema itself, with a `$ref` resolved."""
    if isinstance(schema, Referral):
        assert schema.target is not None
        return schema.target
    return schema


def type_name(schema: Target) -> str:
    """Name of a schema for messages."""
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
    """Names of the parts that have a type; a part may be the whole schema again."""
    parts = [each for each in schema.parts if not isinstance(each, Combined | Referral)]
    return " with ".join(type_name(each) for each in parts) or schema.criterion
