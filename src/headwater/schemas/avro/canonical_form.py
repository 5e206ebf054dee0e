"""Write Avro schemas as text. The registry identifies a schema by its text.

`canonical` is what Avro's Java library prints: whitespace and the order of keys do not matter,
documentation does. `normalized` also sorts what has no order, and writes full names.

Note: the order of keys must match Java's exactly. A registry that takes over a `_schemas` topic
finds a schema's id by the text that the previous registry wrote.
"""

import json
from typing import Any

from headwater.schemas.avro.schema import (
    Array,
    Avro,
    Enum,
    Field,
    Fixed,
    MapOf,
    Name,
    Named,
    Parsed,
    Primitive,
    Record,
    Union,
)


def canonical(schema: Parsed, defined: frozenset[str] = frozenset()) -> str:
    """Write the canonical form; types in `defined` are written by name only."""
    return _dumped(_Canonical(set(defined)).written(schema.root, ""))


def normalized(schema: Parsed, defined: frozenset[str] = frozenset()) -> str:
    return _dumped(_Normalized(set(defined)).written(schema.root))


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class _Canonical:
    def __init__(self, defined: set[str]) -> None:
        self._defined = defined

    def written(self, kind: Avro, namespace: str) -> Any:
        match kind:
            case Primitive():
                return {"type": kind.kind, **kind.props} if kind.props else kind.kind
            case Array():
                return {
                    "type": "array",
                    "items": self.written(kind.items, namespace),
                    **kind.props,
                }
            case MapOf():
                return {
                    "type": "map",
                    "values": self.written(kind.values, namespace),
                    **kind.props,
                }
            case Union():
                return [self.written(branch, namespace) for branch in kind.branches]
            case Fixed() | Enum() | Record():
                return self._named(kind, namespace)

    def _named(self, kind: Fixed | Enum | Record, namespace: str) -> Any:
        if str(kind.name) in self._defined:
            return _relative(kind.name, namespace)
        self._defined.add(str(kind.name))
        written: dict[str, Any] = {"type": _kind_of(kind), "name": kind.name.simple}
        if kind.name.namespace != namespace:
            written["namespace"] = kind.name.namespace
        if kind.doc is not None:
            written["doc"] = kind.doc
        match kind:
            case Fixed():
                written["size"] = kind.size
            case Enum():
                written["symbols"] = list(kind.symbols)
                if kind.default is not None:
                    written["default"] = kind.default
            case Record():
                space = kind.name.namespace
                written["fields"] = [self._field(each, space) for each in kind.fields]
        written |= kind.props
        if kind.aliases:
            written["aliases"] = [_relative(each, kind.name.namespace) for each in kind.aliases]
        return written

    def _field(self, of: Field, namespace: str) -> dict[str, Any]:
        written: dict[str, Any] = {"name": of.name, "type": self.written(of.type, namespace)}
        if of.doc is not None:
            written["doc"] = of.doc
        if of.has_default:
            written["default"] = of.default
        if of.order != "ascending":
            written["order"] = of.order
        if of.aliases:
            written["aliases"] = list(of.aliases)
        written |= of.props
        return written


class _Normalized:
    def __init__(self, defined: set[str]) -> None:
        self._defined = defined

    def written(self, kind: Avro) -> Any:
        match kind:
            case Primitive():
                return {"type": kind.kind, **_sorted(kind.props)} if kind.props else kind.kind
            case Array():
                return {
                    "type": "array",
                    "items": self.written(kind.items),
                    **_sorted(kind.props),
                }
            case MapOf():
                return {
                    "type": "map",
                    "values": self.written(kind.values),
                    **_sorted(kind.props),
                }
            case Union():
                return [self.written(branch) for branch in kind.branches]
            case Fixed() | Enum() | Record():
                return self._named(kind)

    def _named(self, kind: Fixed | Enum | Record) -> Any:
        full = str(kind.name)
        if full in self._defined:
            return full
        self._defined.add(full)
        written: dict[str, Any] = {"name": full, "type": _kind_of(kind)}
        match kind:
            case Fixed():
                written["size"] = kind.size
            case Enum():
                written["symbols"] = list(kind.symbols)
            case Record():
                written["fields"] = [self._field(each) for each in kind.fields]
        if kind.doc:
            written["doc"] = kind.doc
        if kind.aliases:
            written["aliases"] = sorted(str(each) for each in kind.aliases)
        if isinstance(kind, Enum) and kind.default is not None:
            written["default"] = kind.default
        return written | _sorted(kind.props)

    def _field(self, of: Field) -> dict[str, Any]:
        written: dict[str, Any] = {"name": of.name, "type": self.written(of.type)}
        if of.order != "ascending":
            written["order"] = of.order
        if of.doc is not None:
            written["doc"] = of.doc
        if of.aliases:
            written["aliases"] = sorted(of.aliases)
        if of.has_default:
            written["default"] = of.default
        return written | _sorted(of.props)


def _kind_of(kind: Named) -> str:
    match kind:
        case Fixed():
            return "fixed"
        case Enum():
            return "enum"
        case Record(is_error=True):
            return "error"
        case _:
            return "record"


def _relative(name: Name, namespace: str) -> str:
    return name.simple if name.namespace in ("", namespace) else str(name)


def _sorted(props: Any) -> dict[str, Any]:
    return {key: props[key] for key in sorted(props)}
