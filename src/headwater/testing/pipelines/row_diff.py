"""Show the difference between the rows of a sink and the expected ones as a table."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from headwater.testing.pipelines.sink_rows import hashable

# More equal rows than this are counted and not shown.
_EQUAL_SHOWN: Final = 5
_WIDEST: Final = 40

Row = Mapping[str, Any]


def row_diff(found: Sequence[Any], expected: Sequence[Any]) -> list[str]:
    """Return a table of missing and unexpected rows, differing cells marked."""
    strange = [each for each in [*found, *expected] if not isinstance(each, Mapping)]
    if strange:
        return [f"rows are dictionaries, not {strange[0]!r}"]
    equal, unexpected, missing = _split(found, expected)
    head = f"{_rows(len(missing))} missing, {_rows(len(unexpected))} not expected"
    columns = _columns([*expected, *found])
    lines = [f"{head}, {len(equal)} equal", *_table(columns, equal, missing, unexpected)]
    if len(equal) > _EQUAL_SHOWN:
        lines.append(f"  ... and {_rows(len(equal) - _EQUAL_SHOWN)} more that are equal")
    return lines


def _split(found: Sequence[Row], expected: Sequence[Row]) -> tuple[list[Row], list[Row], list[Row]]:
    """Rows in both, only in the first, only in the second."""
    wanted = Counter(map(hashable, expected))
    equal: list[Row] = []
    unexpected: list[Row] = []
    for row in found:
        same = hashable(row)
        if wanted[same]:
            wanted[same] -= 1
            equal.append(row)
        else:
            unexpected.append(row)
    missing = []
    for row in expected:
        same = hashable(row)
        if wanted[same]:
            wanted[same] -= 1
            missing.append(row)
    return equal, unexpected, missing


def _columns(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _table(
    columns: list[str], equal: list[Row], missing: list[Row], unexpected: list[Row]
) -> Iterator[str]:
    shown = [*equal[:_EQUAL_SHOWN], *missing, *unexpected]
    widths = [max(map(len, [name, *(_cell(row, name) for row in shown)])) for name in columns]

    def line(sign: str, cells: Iterable[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return f"  {sign} {'  '.join(padded)}".rstrip()

    yield line(" ", columns)
    for row in equal[:_EQUAL_SHOWN]:
        yield line("=", (_cell(row, name) for name in columns))
    for expected, found in _pairs(missing, unexpected):
        if expected is not None:
            yield line("-", (_cell(expected, name) for name in columns))
        if found is not None:
            yield line("+", (_cell(found, name) for name in columns))
        if expected is not None and found is not None:
            marks = (
                "" if _same(expected, found, name) else "^" * width
                for name, width in zip(columns, widths, strict=True)
            )
            yield line(" ", marks)


def _pairs(missing: list[Row], unexpected: list[Row]) -> Iterator[tuple[Row | None, Row | None]]:
    """Missing rows beside the unexpected row that is most like them."""
    left = list(unexpected)
    for expected in missing:
        best = max(left, key=lambda row: _likeness(expected, row), default=None)
        if best is None or not _likeness(expected, best):
            yield expected, None
            continue
        left = [row for row in left if row is not best]
        yield expected, best
    yield from ((None, row) for row in left)


def _likeness(one: Row, other: Row) -> int:
    return sum(name in other and _same(one, other, name) for name in one)


def _same(one: Row, other: Row, name: str) -> bool:
    if (name in one) != (name in other):
        return False
    return hashable(one.get(name)) == hashable(other.get(name))


def _cell(row: Row, name: str) -> str:
    if name not in row:
        return "-"
    text = repr(row[name])
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"
