"""Parse Avro schemas into a tree without names, for Spark's columns.

This is a second tree besides `schema`, because Spark and the registry need opposite properties.
Here names are replaced by their types, types are compared by value, and logical types are
interpreted; recursive records are rejected, because Spark has no type for them. The registry's tree
keeps names, documentation and unknown properties, may be recursive and is compared by identity.
This parser also accepts what the registry's strict one must reject: a reader's schema reduced to
some columns may define the same name differently in two places, and then the last definition
counts.

Note: a logical type that does not fit its underlying type is ignored, as the Avro specification
requires.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.schemas.errors import UnsupportedSchema

_PLAIN: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_LOGICAL: Final = {
    "date": "int",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "uuid": "string",
}
DECIMAL: Final = "decimal"
UUID: Final = "uuid"
_UUID_BYTES: Final = 16
_DEPTH_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A primitive type (`long`) with its logical type (`timestamp-millis`)."""

    kind: str
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    name: str
    size_bytes: int
    aliases: tuple[str, ...] = ()
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Enumeration:
    name: str
    symbols: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Array:
    items: "Schema"


@dataclass(frozen=True, slots=True)
class Map:
    values: "Schema"


@dataclass(frozen=True, slots=True)
class Union:
    branches: tuple["Schema", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a record. The default is JSON and may be null: see `has_default`."""

    name: str
    schema: "Schema"
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    name: str
    fields: tuple[Field, ...]
    aliases: tuple[str, ...] = ()


Schema = Plain | Fixed | Enumeration | Array | Map | Union | Record
NULL: Final = Plain(kind="null")


def parse_schema(text: str, references: Iterable[str] = ()) -> Schema:
    """Parse a schema; `references` have its other types, in dependency order.

    Raises `UnsupportedSchema` if it is invalid or has no type in Spark.
    """
    reader = _Parser()
    for each in references:
        reader.schema(_json(each), "", ())
    return reader.schema(_json(text), "", ())


def nullable(schema: Schema) -> tuple[bool, tuple[Schema, ...]]:
    """Whether a schema includes null, and its other branches."""
    if not isinstance(schema, Union):
        return schema == NULL, () if schema == NULL else (schema,)
    return NULL in schema.branches, tuple(each for each in schema.branches if each != NULL)


def name_of(schema: Schema) -> str:
    """Name of a schema for messages."""
    match schema:
        case Plain():
            return schema.logical or schema.kind
        case Fixed() | Enumeration() | Record():
            return schema.name
        case Union():
            return f"[{', '.join(map(name_of, schema.branches))}]"
        case Array():
            return "array"
        case Map():
            return "map"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        # A primitive type alone is a schema too; accept it without JSON's quotes.
        if text.strip() in _PLAIN:
            return text.strip()
        raise UnsupportedSchema(f"the Avro schema is not JSON: {error}") from None


class _Parser:
    """Parses schemas in order; later ones may use the types of earlier ones."""

    def __init__(self) -> None:
        self._named: dict[str, Schema] = {}

    def schema(self, given: Any, namespace: str, enclosing: tuple[str, ...]) -> Schema:
        """`enclosing` are the enclosing records."""
        if len(enclosing) > _DEPTH_MAX:
            raise UnsupportedSchema(f"the Avro schema is nested more than {_DEPTH_MAX} levels deep")
        match given:
            case str():
                return self._named_type(given, namespace, enclosing)
            case list():
                return self._union(given, namespace, enclosing)
            case {"type": dict() | list() as inner}:
                return self.schema(inner, namespace, enclosing)
            case {"type": str(kind)}:
                return self._complex_type(kind, given, namespace, enclosing)
            case _:
                raise UnsupportedSchema(f"invalid Avro schema: {_shown(given)}")

    def _named_type(self, word: str, namespace: str, enclosing: tuple[str, ...]) -> Schema:
        if word in _PLAIN:
            return Plain(kind=word)
        name = _full_name(word, namespace)
        for known in (name, word):
            if known in enclosing:
                raise UnsupportedSchema(
                    f"the record {known} is recursive, and Spark has no type for that"
                )
            if known in self._named:
                return self._named[known]
        raise UnsupportedSchema(f"the Avro schema uses the undefined type {name}")

    def _union(self, given: list[Any], namespace: str, enclosing: tuple[str, ...]) -> Schema:
        branches = tuple(self.schema(each, namespace, enclosing) for each in given)
        names = [_branch_name(each) for each in branches]
        if len(set(names)) < len(names) or any(isinstance(each, Union) for each in branches):
            raise UnsupportedSchema(
                f"invalid Avro union, which must contain each type once: {_shown(given)}"
            )
        return Union(branches)

    def _complex_type(
        self, kind: str, given: Mapping[str, Any], namespace: str, enclosing: tuple[str, ...]
    ) -> Schema:
        match kind:
            case "array":
                return Array(self.schema(given.get("items"), namespace, enclosing))
            case "map":
                return Map(self.schema(given.get("values"), namespace, enclosing))
            case "record" | "error":
                return self._record(given, namespace, enclosing)
            case "enum":
                return self._enumeration(given, namespace)
            case "fixed":
                return self._fixed(given, namespace)
            case _ if kind in _PLAIN:
                return _plain(kind, given)
            case _:
                return self._named_type(kind, namespace, enclosing)

    def _record(
        self, given: Mapping[str, Any], namespace: str, enclosing: tuple[str, ...]
    ) -> Schema:
        name, space = _name(given, namespace)
        fields = given.get("fields")
        if not isinstance(fields, list):
            raise UnsupportedSchema(f"the record {name} has no fields")
        found = tuple(self._field(each, name, space, enclosing) for each in fields)
        names = [each.name for each in found]
        if len(set(names)) < len(names):
            raise UnsupportedSchema(f"the record {name} has a field twice: {', '.join(names)}")
        return self._define(Record(name=name, fields=found, aliases=_aliases(given, space)))

    def _field(self, given: Any, record: str, space: str, enclosing: tuple[str, ...]) -> Field:
        if not isinstance(given, dict) or not isinstance(given.get("name"), str):
            raise UnsupportedSchema(
                f"the record {record} has a field without a name: {_shown(given)}"
            )
        return Field(
            name=given["name"],
            schema=self.schema(given.get("type"), space, (*enclosing, record)),
            aliases=tuple(given.get("aliases") or ()),
            has_default="default" in given,
            default=given.get("default"),
        )

    def _enumeration(self, given: Mapping[str, Any], namespace: str) -> Schema:
        name, space = _name(given, namespace)
        symbols = given.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
            raise UnsupportedSchema(f"the enum {name} has no symbols")
        default = given.get("default")
        return self._define(
            Enumeration(
                name=name,
                symbols=tuple(symbols),
                aliases=_aliases(given, space),
                default=default if default in symbols else None,
            )
        )

    def _fixed(self, given: Mapping[str, Any], namespace: str) -> Schema:
        name, space = _name(given, namespace)
        size = given.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise UnsupportedSchema(f"the fixed {name} has no size")
        logical, precision, scale = _decimal(given)
        if given.get("logicalType") == UUID and size == _UUID_BYTES:
            logical = UUID
        return self._define(
            Fixed(
                name=name,
                size_bytes=size,
                aliases=_aliases(given, space),
                logical=logical,
                precision=precision,
                scale=scale,
            )
        )

    def _define(self, schema: Record | Enumeration | Fixed) -> Schema:
        # Avro forbids defining a name twice, which the registry checks. Here the last definition
        # counts, because a schema reduced to some columns may define it differently in two places.
        self._named[schema.name] = schema
        return schema


def _plain(kind: str, given: Mapping[str, Any]) -> Schema:
    logical = given.get("logicalType")
    if kind == "bytes":
        named, precision, scale = _decimal(given)
        return Plain(kind=kind, logical=named, precision=precision, scale=scale)
    return Plain(kind=kind, logical=logical if _LOGICAL.get(str(logical)) == kind else None)


def _decimal(given: Mapping[str, Any]) -> tuple[str | None, int, int]:
    match {"scale": 0, **given}:
        case {"logicalType": "decimal", "precision": int(precision), "scale": int(scale)}:
            is_valid = 0 <= scale <= precision and precision > 0
            return (DECIMAL, precision, scale) if is_valid else (None, 0, 0)
        case _:
            return None, 0, 0


def _name(given: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """The full name, and the namespace of types inside."""
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise UnsupportedSchema(f"an Avro {given.get('type')} needs a name")
    own = given.get("namespace")
    full = _full_name(name, own if isinstance(own, str) else namespace)
    return full, full.rpartition(".")[0]


def _full_name(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _aliases(given: Mapping[str, Any], namespace: str) -> tuple[str, ...]:
    return tuple(_full_name(each, namespace) for each in given.get("aliases") or ())


def _branch_name(schema: Schema) -> str:
    return schema.kind if isinstance(schema, Plain) else name_of(schema)


def _shown(given: Any) -> str:
    text = json.dumps(given)
    return text if len(text) <= 60 else f"{text[:57]}..."
