"""Derive the offsets and timestamps that a predicate can match, per partition.

DuckDB pushes predicates down as Arrow expressions. Only `_partition`, `_offset` and `_timestamp`
are interpreted here; any other part may match every record. The bounds are therefore a superset of
the matching records, and the predicate is still applied to the records that have been read.

Note: Arrow has no interface to inspect an expression. Its pickled form is an Arrow file: the
metadata lists calls, field names and ends of calls in order, and the columns hold literals and
options. An expression that cannot be read in this way bounds nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

PARTITION: Final = "_partition"
OFFSET: Final = "_offset"
TIMESTAMP: Final = "_timestamp"
_ALWAYS_SET: Final = frozenset({PARTITION, OFFSET, TIMESTAMP})

# Beyond any offset and any timestamp in milliseconds.
_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63

_ENTRY: Final = re.compile(r"(call|field_ref|nested_field_ref|literal|options|end): '(.*)'")
_SECTION: Final = "-- schema metadata --\n"
_NESTING_MAX: Final = 200
_MIRRORED: Final = {
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
_NEGATED: Final = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}
_NANOSECONDS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_MILLISECOND_NS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A field; one within a struct has several names."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiteralTerm:
    # An Arrow scalar.
    value: Any


@dataclass(frozen=True, slots=True)
class CallTerm:
    function: str
    arguments: tuple["Term", ...]
    options: Any


Term = FieldRef | LiteralTerm | CallTerm
Intervals = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBounds:
    """Offsets as sorted, disjoint intervals [start, end), timestamps as one interval."""

    offsets: Intervals = ((_LOWEST, _HIGHEST),)
    first_ms: int = _LOWEST
    end_ms: int = _HIGHEST

    @property
    def is_empty(self) -> bool:
        return not self.offsets or self.first_ms >= self.end_ms

    @property
    def has_first_ms(self) -> bool:
        return self.first_ms > _LOWEST

    @property
    def has_end_ms(self) -> bool:
        return self.end_ms < _HIGHEST

    def within(self, first: int, end: int) -> Intervals:
        """The intervals between these offsets."""
        return _intersected(self.offsets, ((first, end),))


EVERYTHING: Final = RecordBounds()
NOTHING: Final = RecordBounds(offsets=())


def record_bounds(term: Term | None, partition: int) -> RecordBounds:
    """Bounds of the records of a partition that a predicate can match."""
    return EVERYTHING if term is None else _bounds(term, partition, is_negated=False)


def fields_of(term: Term) -> frozenset[str]:
    """Names of top-level fields."""
    return frozenset(_fields(term))


def read_expression(expression: Any) -> Term | None:
    """Read an Arrow expression as a tree; None if its form is not known."""
    try:
        content = expression.__reduce__()[1][0]
        batch = pa.ipc.open_file(content).get_batch(0)
        # `metadata` is a mapping and merges repeated keys.
        text = batch.schema.to_string(truncate_metadata=False, show_schema_metadata=True)
        entries = []
        for line in text.partition(_SECTION)[2].splitlines():
            found = _ENTRY.fullmatch(line)
            if found is None:
                return None
            entries.append((found[1], found[2]))
        return _Reader(batch, entries).whole()
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, pa.ArrowException):
        return None


class _Reader:
    def __init__(self, batch: pa.RecordBatch, entries: list[tuple[str, str]]) -> None:
        self._batch = batch
        self._entries = entries
        self._next = 0

    def whole(self) -> Term:
        term = self._term(0)
        if self._next != len(self._entries):
            raise ValueError("content after the expression")
        return term

    def _term(self, depth: int) -> Term:
        if depth > _NESTING_MAX:
            raise ValueError("nested too deeply")
        key, value = self._take()
        match key:
            case "field_ref":
                return FieldRef((value,))
            case "nested_field_ref":
                return FieldRef(tuple(self._take()[1] for _ in range(int(value))))
            case "literal":
                return LiteralTerm(self._batch.column(int(value))[0])
            case "call":
                return self._call(value, depth)
            case _:
                raise ValueError(key)

    def _call(self, function: str, depth: int) -> CallTerm:
        arguments: list[Term] = []
        options: Any = None
        while (upcoming := self._entries[self._next]) != ("end", function):
            if upcoming[0] == "options":
                options = self._batch.column(int(self._take()[1]))[0]
            else:
                arguments.append(self._term(depth + 1))
        self._take()
        return CallTerm(function, tuple(arguments), options)

    def _take(self) -> tuple[str, str]:
        self._next += 1
        return self._entries[self._next - 1]


def _fields(term: Term) -> Iterator[str]:
    match term:
        case FieldRef():
            yield term.path[0]
        case CallTerm():
            for each in term.arguments:
                yield from _fields(each)


def _bounds(term: Term, partition: int, *, is_negated: bool) -> RecordBounds:
    """Bounds of the records for which a term is true, or false if negated."""
    match term:
        case LiteralTerm(value) if pa.types.is_boolean(value.type):
            return EVERYTHING if value.as_py() is not is_negated else NOTHING
        case CallTerm("invert", (inner,)):
            return _bounds(inner, partition, is_negated=not is_negated)
        case CallTerm("and_kleene" | "and" | "or_kleene" | "or", (left, right)):
            one = _bounds(left, partition, is_negated=is_negated)
            other = _bounds(right, partition, is_negated=is_negated)
            is_and = term.function.startswith("and") is not is_negated
            return _both(one, other) if is_and else _either(one, other)
        case CallTerm("is_valid" | "true_unless_null", (FieldRef((name,)),)) if name in _ALWAYS_SET:
            return NOTHING if is_negated else EVERYTHING
        case CallTerm("is_null", (FieldRef((name,)),)) if name in _ALWAYS_SET:
            return EVERYTHING if is_negated else NOTHING
        case CallTerm("if_else", (CallTerm("is_valid", (FieldRef((name,)),)), inner, _)) if (
            name in _ALWAYS_SET
        ):
            return _bounds(inner, partition, is_negated=is_negated)
        case CallTerm("is_in", (FieldRef((name,)),)):
            return _is_in(name, term.options["value_set"], partition, is_negated=is_negated)
        case CallTerm(function, (FieldRef((name,)), LiteralTerm(value))) if function in _MIRRORED:
            operator = _NEGATED[function] if is_negated else function
            return _compared(name, operator, value, partition)
        case CallTerm(function, (LiteralTerm(value), FieldRef((name,)))) if function in _MIRRORED:
            operator = _MIRRORED[function]
            return _compared(name, _NEGATED[operator] if is_negated else operator, value, partition)
        case _:
            return EVERYTHING


def _is_in(name: str, values: Any, partition: int, *, is_negated: bool) -> RecordBounds:
    if is_negated and name != PARTITION:
        return EVERYTHING
    found = NOTHING
    for each in values.values:
        found = _either(found, _compared(name, "equal", each, partition))
    if not is_negated:
        return found
    return EVERYTHING if found.is_empty else NOTHING


def _compared(name: str, operator: str, value: Any, partition: int) -> RecordBounds:
    if name not in _ALWAYS_SET:
        return EVERYTHING
    if not value.is_valid:
        # A comparison with null is never true.
        return NOTHING
    if name == TIMESTAMP:
        return _compared_times(operator, value)
    if not pa.types.is_integer(value.type):
        return EVERYTHING
    number: int = value.as_py()
    if name == PARTITION:
        first, end = _interval(operator, number, number)
        is_within = first <= partition < end
        return (
            EVERYTHING
            if is_within and (operator != "not_equal" or partition != number)
            else NOTHING
        )
    first, end = _interval(operator, number, number)
    return RecordBounds(offsets=((first, end),)) if first < end else NOTHING


def _compared_times(operator: str, value: Any) -> RecordBounds:
    if not pa.types.is_timestamp(value.type):
        return EVERYTHING
    nanoseconds = value.value * _NANOSECONDS[value.type.unit]
    floor = nanoseconds // _MILLISECOND_NS
    ceiling = -(-nanoseconds // _MILLISECOND_NS)
    first, end = _interval(operator, floor, ceiling)
    return RecordBounds(first_ms=first, end_ms=end) if first < end else NOTHING


def _interval(operator: str, floor: int, ceiling: int) -> tuple[int, int]:
    """Whole numbers that a comparison with a value can match."""
    match operator:
        case "equal":
            return ceiling, floor + 1
        case "less":
            return _LOWEST, ceiling
        case "less_equal":
            return _LOWEST, floor + 1
        case "greater":
            return floor + 1, _HIGHEST
        case "greater_equal":
            return ceiling, _HIGHEST
        case _:
            return _LOWEST, _HIGHEST


def _both(one: RecordBounds, other: RecordBounds) -> RecordBounds:
    return RecordBounds(
        offsets=_intersected(one.offsets, other.offsets),
        first_ms=max(one.first_ms, other.first_ms),
        end_ms=min(one.end_ms, other.end_ms),
    )


def _either(one: RecordBounds, other: RecordBounds) -> RecordBounds:
    if one.is_empty:
        return other
    if other.is_empty:
        return one
    return RecordBounds(
        offsets=_joined(one.offsets, other.offsets),
        first_ms=min(one.first_ms, other.first_ms),
        end_ms=max(one.end_ms, other.end_ms),
    )


def _intersected(one: Intervals, other: Intervals) -> Intervals:
    return tuple(
        (max(first, start), min(end, stop))
        for first, end in one
        for start, stop in other
        if max(first, start) < min(end, stop)
    )


def _joined(one: Intervals, other: Intervals) -> Intervals:
    merged: list[tuple[int, int]] = []
    for first, end in sorted((*one, *other)):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((first, end))
    return tuple(merged)
