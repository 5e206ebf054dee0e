"""Decide whether data written with one Avro schema can be read with another.

Avro's rules of schema resolution, checked for every value that a writer could write. Logical types
are ignored, as resolution ignores them. Results, kinds, paths and reasons are those of Avro's Java
library, which Confluent's registry reports.

The check builds a graph of type pairs (reader, writer) and then propagates failures from the pairs
that fail by themselves to the pairs that need them. Each pair is visited once, and a reader's union
is indexed by name, so the cost grows with the size of the schemas and not with the product of their
unions.

Note: recursive schemas create cycles of pairs. A pair that only depends on itself has not failed,
hence is compatible, as in Avro's resolution.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from headwater.schemas.avro.schema import (
    Array,
    Avro,
    Enum,
    Field,
    Fixed,
    MapOf,
    Name,
    Primitive,
    Record,
    Union,
)
from headwater.schemas.errors import invalid_schema_of_type

_PROMOTIONS: Final = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}
INCOMPATIBILITIES_MAX: Final = 50
STEPS_MAX: Final = 1_000_000

Named = Fixed | Enum | Record

_BranchKey = str | type | tuple[type, Name]
"""Key of a union's branch: a primitive's kind, a full name, or a type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incompatibility:
    """A part of a writer's data that the reader cannot read, and its path."""

    kind: str
    path: str
    reason: str

    def described(self, *, reader: str, writer: str) -> str:
        """The message in Confluent's format; `reader` and `writer` are "new" and "old"."""
        text = _description(self).format(reader=reader, writer=writer)
        return f"{{errorType:'{self.kind}', description:'{text}', additionalInfo:'{self.reason}'}}"


_Step = Incompatibility | tuple[Avro, Avro, str]
"""An incompatibility, or a pair of types to examine and its path."""


def unreadable(*, reader: Avro, writer: Avro) -> list[Incompatibility]:
    """List what keeps a reader from reading a writer's data.

    Raises `InvalidSchema` if the schemas are too large to compare.
    """
    comparison = Comparison()
    comparison.compare(reader, writer)
    return comparison.incompatibilities(reader, writer)


@dataclass(slots=True)
class _Node:
    """A pair of types while it is compared."""

    needs_any: bool = False
    """Whether one compatible part is enough, as for a reader's union; otherwise all are needed."""
    pending: int = 0
    """Number of parts that have not failed."""
    has_failed: bool = False
    parents: list["_Node"] = field(default_factory=list)


class Comparison:
    """One comparison of two schemas, which the caller keeps alive.

    Types are identified by `id`.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._nodes: dict[tuple[int, int], _Node] = {}
        self._unexpanded: list[tuple[Avro, Avro, _Node]] = []
        self._failures: list[_Node] = []
        self._open: set[tuple[int, int]] = set()
        """Pairs whose incompatibilities are being collected."""
        self._branches: dict[int, dict[_BranchKey, list[Avro]]] = {}
        self._fields: dict[int, dict[str, Field]] = {}
        self._symbols: dict[int, frozenset[str]] = {}
        self._aliases: dict[int, frozenset[Name]] = {}

    def compare(self, reader: Avro, writer: Avro) -> None:
        """Compare a pair and all pairs that it needs."""
        self._node(reader, writer)
        while self._unexpanded:
            self._expand(*self._unexpanded.pop())
        while self._failures:
            node = self._failures.pop()
            if node.has_failed:
                continue
            node.has_failed = True
            for parent in node.parents:
                parent.pending -= 1
                if not parent.needs_any or parent.pending == 0:
                    self._failures.append(parent)

    def incompatibilities(self, reader: Avro, writer: Avro) -> list[Incompatibility]:
        """Describe why a compared pair failed, each pair of types once."""
        found: list[Incompatibility] = []
        reported: set[tuple[int, int]] = set()
        pending_steps: list[_Step | tuple[int, int]] = [(reader, writer, "/")]
        while pending_steps and len(found) < INCOMPATIBILITIES_MAX:
            step = pending_steps.pop()
            if isinstance(step, Incompatibility):
                found.append(step)
            elif len(step) == 2:
                self._open.remove(step)
            else:
                pair = (id(step[0]), id(step[1]))
                if self._nodes[pair].has_failed and pair not in reported:
                    reported.add(pair)
                    self._open.add(pair)
                    pending_steps += [pair, *reversed(list(self._reasons(*step)))]
        self._open.clear()
        return found

    def _node(self, reader: Avro, writer: Avro) -> _Node:
        pair = (id(reader), id(writer))
        node = self._nodes.get(pair)
        if node is None:
            node = self._nodes[pair] = _Node()
            self._unexpanded.append((reader, writer, node))
        return node

    def _expand(self, reader: Avro, writer: Avro, node: _Node) -> None:
        is_compatible, parts = self._rule(reader, writer)
        self._count(1 + len(parts))
        node.needs_any = isinstance(reader, Union) and not isinstance(writer, Union)
        node.pending = len(parts)
        for part in parts:
            self._node(*part).parents.append(node)
        if not is_compatible or (node.needs_any and not parts):
            self._failures.append(node)

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > STEPS_MAX:
            raise invalid_schema_of_type(
                "AVRO", "too many pairs of types to compare with an earlier version"
            )

    def _rule(self, reader: Avro, writer: Avro) -> tuple[bool, list[tuple[Avro, Avro]]]:
        """Whether the pair itself is compatible, and the pairs that it needs."""
        match reader, writer:
            case _, Union():
                return True, [(reader, branch) for branch in writer.branches]
            case Union(), _:
                return True, [(branch, writer) for branch in self._candidates(reader, writer)]
            case Primitive(), Primitive():
                return _is_promoted(reader, writer), []
            case Array(), Array():
                return True, [(reader.items, writer.items)]
            case MapOf(), MapOf():
                return True, [(reader.values, writer.values)]
            case Fixed(), Fixed():
                return self._is_named(reader, writer) and reader.size == writer.size, []
            case Enum(), Enum():
                return self._is_named(reader, writer) and not self._missing(reader, writer), []
            case Record(), Record():
                return self._record_rule(reader, writer)
            case _:
                return False, []

    def _record_rule(self, reader: Record, writer: Record) -> tuple[bool, list[tuple[Avro, Avro]]]:
        parts = []
        is_compatible = self._is_named(reader, writer)
        for each in reader.fields:
            found = self._counterpart(each, writer)
            if found is not None:
                parts.append((each.type, found.type))
            elif not each.has_default:
                is_compatible = False
        return is_compatible, parts

    def _candidates(self, reader: Union, writer: Avro) -> list[Avro]:
        """Branches of a reader's union that could read a type: few, whatever its size."""
        index = self._branches.get(id(reader))
        if index is None:
            index = self._branches[id(reader)] = {}
            for branch in reader.branches:
                for key in _keys_of(branch):
                    index.setdefault(key, []).append(branch)
            self._count(len(reader.branches))
        return index.get(_key_of(writer), [])

    def _is_named(self, reader: Named, writer: Named) -> bool:
        if writer.name == reader.name:
            return True
        if id(reader) not in self._aliases:
            self._aliases[id(reader)] = frozenset(reader.aliases)
        return writer.name in self._aliases[id(reader)]

    def _missing(self, reader: Enum, writer: Enum) -> list[str]:
        """Symbols that the reader does not have, if it has no default."""
        if reader.default is not None or reader is writer:
            return []
        self._count(len(writer.symbols))
        if id(reader) not in self._symbols:
            self._symbols[id(reader)] = frozenset(reader.symbols)
        known = self._symbols[id(reader)]
        return [symbol for symbol in writer.symbols if symbol not in known]

    def _counterpart(self, of: Field, writer: Record) -> Field | None:
        written = self._fields.get(id(writer))
        if written is None:
            written = self._fields[id(writer)] = {each.name: each for each in writer.fields}
        for name in (of.name, *of.aliases):
            if name in written:
                return written[name]
        return None

    def _reasons(self, reader: Avro, writer: Avro, path: str) -> Iterator[_Step]:
        """What is wrong with a failed pair, and the pairs to examine."""
        match reader, writer:
            case Union(), Union():
                for index, branch in enumerate(writer.branches):
                    if self._is_missing(reader, branch):
                        yield _missing_branch(_under(path, str(index)), branch)
            case _, Union():
                for index, branch in enumerate(writer.branches):
                    yield (reader, branch, _under(path, str(index)))
            case Union(), _:
                if self._is_missing(reader, writer):
                    yield _missing_branch(path, writer)
            case Array(), Array():
                yield (reader.items, writer.items, _under(path, "items"))
            case MapOf(), MapOf():
                yield (reader.values, writer.values, _under(path, "values"))
            case (
                Fixed() | Enum() | Record(),
                Fixed() | Enum() | Record(),
            ) if type(reader) is type(writer):
                if not self._is_named(reader, writer):
                    reason = f"expected: {writer.name}"
                    yield _incompatibility("NAME_MISMATCH", _under(path, "name"), reason)
                yield from self._reasons_within(reader, writer, path)
            case _:
                reason = (
                    f"reader type: {_java_type(reader)} not compatible with "
                    f"writer type: {_java_type(writer)}"
                )
                yield _incompatibility("TYPE_MISMATCH", path, reason)

    def _is_missing(self, reader: Union, writer: Avro) -> bool:
        """Whether to report a branch: not for a pair that is being reported already."""
        if not self._nodes[id(reader), id(writer)].has_failed:
            return False
        candidates = self._candidates(reader, writer)
        return not any((id(each), id(writer)) in self._open for each in candidates)

    def _reasons_within(self, reader: Named, writer: Named, path: str) -> Iterator[_Step]:
        match reader, writer:
            case Fixed(), Fixed() if reader.size != writer.size:
                reason = f"expected: {writer.size}, found: {reader.size}"
                yield _incompatibility("FIXED_SIZE_MISMATCH", _under(path, "size"), reason)
            case Enum(), Enum():
                missing = sorted(self._missing(reader, writer))
                if missing:
                    reason = f"[{', '.join(missing)}]"
                    yield _incompatibility("MISSING_ENUM_SYMBOLS", _under(path, "symbols"), reason)
            case Record(), Record():
                for index, each in enumerate(reader.fields):
                    where = _under(path, f"fields/{index}")
                    found = self._counterpart(each, writer)
                    if found is not None:
                        yield (each.type, found.type, _under(where, "type"))
                    elif not each.has_default:
                        yield _incompatibility(
                            "READER_FIELD_MISSING_DEFAULT_VALUE", where, each.name
                        )


def _key_of(writer: Avro) -> _BranchKey:
    match writer:
        case Primitive():
            return writer.kind
        case Fixed() | Enum() | Record():
            return (type(writer), writer.name)
        case _:
            return type(writer)


def _keys_of(branch: Avro) -> Iterator[_BranchKey]:
    """Types of writers that a branch of a reader's union may be able to read."""
    match branch:
        case Primitive():
            yield from (branch.kind, *_PROMOTIONS.get(branch.kind, ()))
        case Fixed() | Enum() | Record():
            for name in dict.fromkeys((branch.name, *branch.aliases)):
                yield (type(branch), name)
        case _:
            yield type(branch)


def _is_promoted(reader: Primitive, writer: Primitive) -> bool:
    return reader.kind == writer.kind or writer.kind in _PROMOTIONS.get(reader.kind, ())


def _missing_branch(path: str, writer: Avro) -> Incompatibility:
    reason = f"reader union lacking writer type: {_java_type(writer)}"
    return _incompatibility("MISSING_UNION_BRANCH", path, reason)


def _incompatibility(kind: str, path: str, reason: str) -> Incompatibility:
    return Incompatibility(kind=kind, path=path, reason=reason)


def _java_type(kind: Avro) -> str:
    """The name of a type in Avro's Java library, which Confluent's users know."""
    match kind:
        case Primitive():
            return kind.kind.upper()
        case MapOf():
            return "MAP"
        case _:
            return type(kind).__name__.upper()


def _under(path: str, part: str) -> str:
    return f"{path.rstrip('/')}/{part}"


def _description(of: Incompatibility) -> str:
    """Confluent's sentence for a kind of incompatibility; clients search in it."""
    match of.kind:
        case "FIXED_SIZE_MISMATCH":
            return (
                f"The size of FIXED type field at path '{of.path}' in the {{reader}} schema does "
                "not match with the {writer} schema"
            )
        case "TYPE_MISMATCH":
            return (
                f"The type (path '{of.path}') of a field in the {{reader}} schema does not match "
                "with the {writer} schema"
            )
        case "NAME_MISMATCH":
            return f"The name of the schema has changed (path '{of.path}')"
        case "MISSING_ENUM_SYMBOLS":
            return (
                f"The {{reader}} schema is missing enum symbols '{of.reason}' at path '{of.path}' "
                "in the {writer} schema"
            )
        case "MISSING_UNION_BRANCH":
            return (
                "The {reader} schema is missing a type inside a union field at path "
                f"'{of.path}' in the {{writer}} schema"
            )
        case _:
            return (
                f"The field '{of.reason}' at path '{of.path}' in the {{reader}} schema has no "
                "default value and is missing in the {writer} schema"
            )
