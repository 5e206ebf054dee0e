"""Derive the columns of JSON records, from a sample or from a JSON Schema.

    {"id": 1, "tags": ["a"]}      id BIGINT, tags VARCHAR[]
    {"id": 2.5}                   id DOUBLE, tags VARCHAR[]
    {"id": "x"}                   id JSON text, tags VARCHAR[]

A field that has several types is JSON text, so that no value is lost.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

# An object with more fields is a mapping, whose keys are data.
FIELDS_MAX: Final = 200
_DEPTH_MAX: Final = 32
_LONG_MAX: Final = 2**63
_REFERENCES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type of JSON; `mixed` for values of several types, `null` for no value at all."""

    name: str


@dataclass(frozen=True, slots=True)
class ListOf:
    items: "Kind"


@dataclass(frozen=True, slots=True)
class ObjectOf:
    fields: Mapping[str, "Kind"] = field(default_factory=dict)


Kind = Scalar | ListOf | ObjectOf

NULL: Final = Scalar("null")
MIXED: Final = Scalar("mixed")
BOOLEAN: Final = Scalar("boolean")
INTEGER: Final = Scalar("integer")
NUMBER: Final = Scalar("number")
STRING: Final = Scalar("string")

_ARROW: "Final[dict[Scalar, pa.DataType]]" = {
    NULL: pa.string(),
    BOOLEAN: pa.bool_(),
    INTEGER: pa.int64(),
    NUMBER: pa.float64(),
    STRING: pa.string(),
}
_NAMED: Final = {each.name: each for each in (NULL, BOOLEAN, INTEGER, NUMBER, STRING)}


def kind_of(value: object, depth: int = 0) -> Kind:
    """The type of a value that `json.loads` returned."""
    if depth > _DEPTH_MAX:
        return MIXED
    match value:
        case None:
            return NULL
        case bool():
            return BOOLEAN
        case int():
            return INTEGER if -_LONG_MAX <= value < _LONG_MAX else NUMBER
        case float():
            return NUMBER
        case str():
            return STRING
        case list():
            return ListOf(merged_all(kind_of(each, depth + 1) for each in value))
        case dict():
            if len(value) > FIELDS_MAX:
                return MIXED
            return ObjectOf({name: kind_of(each, depth + 1) for name, each in value.items()})
        case _:
            return MIXED


def merged_all(kinds: Iterable[Kind]) -> Kind:
    found: Kind = NULL
    for each in kinds:
        found = merged(found, each)
    return found


def merged(one: Kind, other: Kind) -> Kind:
    """The type of values of either type."""
    if one == other or other == NULL:
        return one
    match one, other:
        case Scalar("null"), _:
            return other
        case Scalar("integer" | "number"), Scalar("integer" | "number"):
            return NUMBER
        case ListOf(), ListOf():
            return ListOf(merged(one.items, other.items))
        case ObjectOf(), ObjectOf():
            fields = dict(one.fields)
            for name, each in other.fields.items():
                fields[name] = merged(fields[name], each) if name in fields else each
            return ObjectOf(fields) if len(fields) <= FIELDS_MAX else MIXED
        case _:
            return MIXED


def arrow_type(kind: Kind) -> pa.DataType | None:
    """The Arrow type; None if only JSON text can hold the values."""
    match kind:
        case Scalar():
            return _ARROW.get(kind)
        case ListOf():
            items = arrow_type(kind.items)
            return None if items is None else pa.list_(pa.field("element", items))
        case ObjectOf():
            if not kind.fields:
                return None
            fields = []
            for name, each in kind.fields.items():
                inner = arrow_type(each)
                if inner is None:
                    return None
                fields.append(pa.field(name, inner))
            return pa.struct(fields)


def kind_of_schema(schema: object) -> Kind:
    """The type of values that a JSON Schema allows; mixed where it allows several."""
    return _SchemaReader(schema).kind(schema, 0)


class _SchemaReader:
    def __init__(self, root: object) -> None:
        self._root = root

    def kind(self, schema: object, depth: int) -> Kind:
        if not isinstance(schema, dict) or depth > _DEPTH_MAX:
            return MIXED
        if "$ref" in schema:
            return self.kind(self._referred(schema["$ref"]), depth + 1)
        for word in ("anyOf", "oneOf"):
            branches = schema.get(word)
            if isinstance(branches, list) and branches:
                return merged_all(self.kind(each, depth + 1) for each in branches)
        given = schema.get("type")
        names = given if isinstance(given, list) else [given]
        return merged_all(self._typed(schema, name, depth) for name in names)

    def _typed(self, schema: dict[str, Any], name: object, depth: int) -> Kind:
        match name:
            case "object":
                properties = schema.get("properties")
                if not isinstance(properties, dict) or len(properties) > FIELDS_MAX:
                    return MIXED
                return ObjectOf(
                    {each: self.kind(inner, depth + 1) for each, inner in properties.items()}
                )
            case "array":
                return ListOf(self.kind(schema.get("items"), depth + 1))
            case str():
                return _NAMED.get(name, MIXED)
            case _:
                return MIXED

    def _referred(self, reference: object) -> object:
        """The target of a reference within the schema."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return None
        found = self._root
        for part in reference[2:].split("/")[:_REFERENCES_MAX]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return found
