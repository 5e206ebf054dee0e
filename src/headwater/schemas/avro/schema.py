"""Parse Avro schemas into a tree of types, as strictly as Avro's Java parser.

Note: schemas may be recursive, so a record is created before its fields are known, and types are
compared by identity, never by value.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from headwater.schemas.errors import InvalidSchema, invalid_schema_of_type

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEPTH_MAX: Final = 100
_DEFAULT_STEPS_MAX: Final = 1_000_000
_ORDERS: Final = ("ascending", "descending", "ignore")
_RESERVED: Final = frozenset(
    ["doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"]
)
_RESERVED_IN_FIELDS: Final = frozenset(["default", "doc", "name", "order", "type", "aliases"])

N = TypeVar("N", bound="Named")

Props = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    kind: str
    props: Props


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    items: "Avro"
    props: Props


@dataclass(frozen=True, slots=True, eq=False)
class MapOf:
    values: "Avro"
    props: Props


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    branches: tuple["Avro", ...]


@dataclass(frozen=True, slots=True)
class Name:
    """A full name in two parts; the namespace may be empty."""

    simple: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.simple}" if self.namespace else self.simple


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Named:
    """Common part of records, enums and fixed types."""

    name: Name
    aliases: tuple[Name, ...]
    doc: str | None
    props: Props


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Fixed(Named):
    size: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Enum(Named):
    symbols: tuple[str, ...]
    default: str | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Field:
    name: str
    type: "Avro"
    doc: str | None
    has_default: bool
    default: Any
    order: str
    aliases: tuple[str, ...]
    props: Props


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Record(Named):
    is_error: bool
    fields: list[Field] = field(default_factory=list)


Avro = Primitive | Array | MapOf | Union | Fixed | Enum | Record


def parse(text: str, names: dict[str, Named] | None = None) -> "Parsed":
    """Parse a schema. `names` has the types that it may use, and gets its own ones.

    One dict is shared by a schema and its references, since copies for many references would be
    slow.
    """
    try:
        given = json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise _bad(f"not JSON: {error}") from error
    reading = _Parser({} if names is None else names)
    root = reading.read(given, "", 0)
    return Parsed(root, reading.names)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A schema, and every named type that it defines or was given."""

    root: Avro
    names: Mapping[str, Named]


def _reject_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


class _Parser:
    def __init__(self, names: dict[str, Named]) -> None:
        self.names = names
        self._default_steps = 0

    def read(self, given: Any, namespace: str, depth: int) -> Avro:
        if depth > _DEPTH_MAX:
            raise _bad(f"types are nested more than {_DEPTH_MAX} deep")
        match given:
            case str():
                return self._referred(given, namespace)
            case list():
                return self._union(given, namespace, depth)
            case {"type": str() as kind}:
                return self._complex(kind, given, namespace, depth)
            case {"type": dict() | list() as inner}:
                return self.read(inner, namespace, depth + 1)
            case dict():
                raise _bad(f"no type: {_shown(given)}")
            case _:
                raise _bad(f"{_shown(given)} is not a type")

    def _referred(self, text: str, namespace: str) -> Avro:
        if text in PRIMITIVES:
            return Primitive(text, {})
        found = self.names.get(text if "." in text or not namespace else f"{namespace}.{text}")
        # A simple name may also refer to a type without a namespace.
        found = found or self.names.get(text)
        if found is None:
            raise _bad(f"undefined name: {_shown(text)}")
        assert isinstance(found, Fixed | Enum | Record)
        return found

    def _union(self, given: list[Any], namespace: str, depth: int) -> Union:
        branches = tuple(self.read(each, namespace, depth + 1) for each in given)
        seen = set()
        for branch in branches:
            if isinstance(branch, Union):
                raise _bad("a union directly contains a union")
            what = type_name(branch)
            if what in seen:
                raise _bad(f"a union contains {what} twice")
            seen.add(what)
        return Union(branches)

    def _complex(self, kind: str, given: dict[str, Any], namespace: str, depth: int) -> Avro:
        if kind in PRIMITIVES:
            return Primitive(kind, _props(given, _RESERVED))
        match kind:
            case "array" | "map":
                what = "items" if kind == "array" else "values"
                if what not in given:
                    raise _bad(f"{kind} without {what}: {_shown(given)}")
                inner = self.read(given[what], namespace, depth + 1)
                props = _props(given, _RESERVED)
                return Array(inner, props) if kind == "array" else MapOf(inner, props)
            case "fixed":
                return self._fixed(given, namespace)
            case "enum":
                return self._enum(given, namespace)
            case "record" | "error":
                return self._record(kind, given, namespace, depth)
            case _:
                return self._referred(kind, namespace)

    def _fixed(self, given: dict[str, Any], namespace: str) -> Fixed:
        size = given.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise _bad(f"fixed needs a size: {_shown(given)}")
        name = _name_of(given, namespace)
        return self._defined(
            Fixed(
                name=name,
                aliases=_aliases(given, name.namespace),
                doc=_text(given, "doc"),
                props=_props(given, _RESERVED),
                size=size,
            )
        )

    def _enum(self, given: dict[str, Any], namespace: str) -> Enum:
        symbols = given.get("symbols")
        if not isinstance(symbols, list):
            raise _bad(f"enum without symbols: {_shown(given)}")
        for symbol in symbols:
            _check_name(symbol, "symbol")
        if len(set(symbols)) < len(symbols):
            raise _bad(f"an enum contains a symbol twice: {_shown(given)}")
        default = given.get("default")
        if default is not None and default not in symbols:
            raise _bad(f"the default of an enum is not one of its symbols: {_shown(default)}")
        name = _name_of(given, namespace)
        return self._defined(
            Enum(
                name=name,
                aliases=_aliases(given, name.namespace),
                doc=_text(given, "doc"),
                props=_props(given, _RESERVED | {"default"}),
                symbols=tuple(symbols),
                default=default,
            )
        )

    def _record(self, kind: str, given: dict[str, Any], namespace: str, depth: int) -> Record:
        fields = given.get("fields")
        if not isinstance(fields, list):
            raise _bad(f"record without fields: {_shown(given)}")
        name = _name_of(given, namespace)
        record = self._defined(
            Record(
                name=name,
                aliases=_aliases(given, name.namespace),
                doc=_text(given, "doc"),
                props=_props(given, _RESERVED),
                is_error=kind == "error",
            )
        )
        seen = set()
        for each in fields:
            found = self._field(each, name.namespace, depth)
            if found.name in seen:
                raise _bad(f"{name} has the field {found.name} twice")
            seen.add(found.name)
            record.fields.append(found)
        # Checked after all fields, because a default may be a value of the record itself.
        for each_field in record.fields:
            self._check_default(each_field, name)
        return record

    def _check_default(self, of: Field, record: Name) -> None:
        if of.has_default and not self._fits(of.default, of.type):
            what = f"{record}.{of.name} is not a {type_name(of.type)}"
            raise _bad(f"the default of {what}: {_shown(of.default)}")

    def _fits(self, value: Any, kind: Avro) -> bool:
        self._default_steps += 1
        if self._default_steps > _DEFAULT_STEPS_MAX:
            # Many small defaults of one large type cost the product of both sizes.
            raise _bad("the default values are too large to check")
        match kind:
            case Primitive():
                return _fits_primitive(value, kind.kind)
            case Union():
                return any(self._fits(value, branch) for branch in kind.branches)
            case Array():
                return isinstance(value, list) and all(
                    self._fits(each, kind.items) for each in value
                )
            case MapOf():
                return isinstance(value, dict) and all(
                    self._fits(each, kind.values) for each in value.values()
                )
            case Enum():
                return self._is_symbol(value, kind)
            case Fixed():
                return isinstance(value, str)
            case Record():
                return isinstance(value, dict) and all(
                    self._is_filled(value, each) for each in kind.fields
                )

    def _is_filled(self, value: dict[str, Any], field: Field) -> bool:
        if field.name in value:
            return self._fits(value[field.name], field.type)
        self._default_steps += 1
        return field.has_default

    def _is_symbol(self, value: Any, kind: Enum) -> bool:
        self._default_steps += len(kind.symbols) // 100
        return value in kind.symbols

    def _field(self, given: Any, namespace: str, depth: int) -> Field:
        if not isinstance(given, dict) or "type" not in given:
            raise _bad(f"a field needs a name and a type: {_shown(given)}")
        name = _check_name(given.get("name"), "field")
        order = str(given.get("order", "ascending")).lower()
        if order not in _ORDERS:
            raise _bad(f"{_shown(given['order'])} is not a field order")
        return Field(
            name=name,
            type=self.read(given["type"], namespace, depth + 1),
            doc=_text(given, "doc"),
            has_default="default" in given,
            default=given.get("default"),
            order=order,
            aliases=tuple(_check_name(each, "alias") for each in _list(given, "aliases")),
            props=_props(given, _RESERVED_IN_FIELDS),
        )

    def _defined(self, kind: N) -> N:
        full = str(kind.name)
        if full in self.names:
            raise _bad(f"{full} is defined twice")
        if full in PRIMITIVES:
            raise _bad(f"{full} is the name of a primitive type")
        self.names[full] = kind
        return kind


def type_name(kind: Avro) -> str:
    """Name of a type: the full name of named types."""
    match kind:
        case Primitive():
            return kind.kind
        case Array():
            return "array"
        case MapOf():
            return "map"
        case Union():
            return "union"
        case _:
            return str(kind.name)


def _fits_primitive(value: Any, kind: str) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bits = 31 if kind == "int" else 63
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            return is_whole and -(2**bits) <= value < 2**bits
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case _:
            return isinstance(value, str)


def _name_of(given: dict[str, Any], namespace: str) -> Name:
    name = given.get("name")
    if not isinstance(name, str):
        raise _bad(f"no name: {_shown(given)}")
    own = given.get("namespace", namespace)
    if own is not None and not isinstance(own, str):
        raise _bad(f"{_shown(own)} is not a namespace")
    return _qualified(name, own or "")


def _qualified(text: Any, namespace: str) -> Name:
    if not isinstance(text, str):
        raise _bad(f"{_shown(text)} is not a name")
    space, dot, simple = text.rpartition(".")
    found = Name(simple, space) if dot else Name(text, namespace)
    for part in (found.simple, *(found.namespace.split(".") if found.namespace else ())):
        _check_name(part, "name")
    return found


def _aliases(given: dict[str, Any], namespace: str) -> tuple[Name, ...]:
    return tuple(_qualified(each, namespace) for each in _list(given, "aliases"))


def _check_name(text: Any, what: str) -> str:
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise _bad(f"illegal {what}: {_shown(text)}")
    return text


def _list(given: dict[str, Any], key: str) -> list[Any]:
    found = given.get(key) or []
    if not isinstance(found, list):
        raise _bad(f"{key} is not a list: {_shown(found)}")
    return found


def _text(given: dict[str, Any], key: str) -> str | None:
    found = given.get(key)
    return found if isinstance(found, str) else None


def _props(given: dict[str, Any], reserved: frozenset[str]) -> Props:
    return {key: value for key, value in given.items() if key not in reserved}


def _shown(given: Any) -> str:
    text = json.dumps(given, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _bad(reason: str) -> InvalidSchema:
    return invalid_schema_of_type("AVRO", reason)
