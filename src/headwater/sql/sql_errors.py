"""Errors of queries, which point at the place and name what is close to it.

headwater: column "amout" does not exist in orders
  select sum(amout) from orders
             ^^^^^
  did you mean amount?
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from headwater.common.exceptions import HeadwaterError

_JSON: Final = re.compile(r"^[\w ]+ Error: (\{.*\})\s*$", re.DOTALL)
_NO_COLUMN: Final = re.compile(r'column (?:named )?"([^"]+)"', re.IGNORECASE)
# DuckDB's messages about a missing extension, which advise to install it.
_NEEDS_EXTENSION: Final = re.compile(
    r"""requires the extension (\w+)|exists in the (\w+) extension|[Ee]xtension "(?:[^"]*/)?(\w+)"""
)
NO_EXTENSIONS: Final = "extensions of DuckDB can be neither installed nor loaded"
_CANDIDATES: Final = re.compile(r"Candidate bindings: :? ?(.*)")


class QueryError(HeadwaterError):
    """A query failed or is not valid; the message shows the place in the query."""


class UnknownTable(QueryError):
    """A query names a table that is neither a topic nor known to DuckDB."""


class QueryCancelled(QueryError):
    """The query was cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What DuckDB reports, taken apart."""

    message: str
    position: int | None = None
    length: int = 1
    # What is missing, if a name is missing.
    table: str | None = None
    column: str | None = None
    candidates: tuple[str, ...] = ()


def read_problem(text: str) -> Problem:
    """Take an error of DuckDB apart; `errors_as_json` has to be set."""
    found = _JSON.match(text)
    try:
        details: dict[str, Any] = json.loads(found[1]) if found is not None else {}
    except ValueError:
        details = {}
    if "exception_message" not in details:
        return Problem(message=_without_advice(text.strip()))
    message = _without_advice(str(details["exception_message"]))
    position, length = _location(details)
    first, _, rest = message.partition("\n")
    kind = str(details.get("type", ""))
    missing = str(details.get("name", "")) or None
    is_missing = details.get("error_subtype") == "MISSING_ENTRY"
    column = missing if details.get("error_subtype") == "COLUMN_NOT_FOUND" else None
    if column is None and "does not have a column" in first:
        named = _NO_COLUMN.search(first)
        column = named[1] if named is not None else None
    bindings = _CANDIDATES.search(message)
    candidates = str(details.get("candidates") or (bindings[1] if bindings else ""))
    if rest and not (is_missing or column):
        first = " ".join(message.split())
    return Problem(
        message=first,
        position=position,
        length=length,
        table=missing if is_missing and kind == "Table" else None,
        column=column,
        candidates=tuple(each.strip().strip('"') for each in candidates.split(",") if each.strip()),
    )


def _without_advice(message: str) -> str:
    found = _NEEDS_EXTENSION.search(message)
    if found is None:
        return message
    name = next(each for each in found.groups() if each)
    return f"this needs DuckDB's extension {name}; {NO_EXTENSIONS}"


def _location(details: dict[str, Any]) -> tuple[int | None, int]:
    try:
        position = int(details["position"])
        _, length = json.loads(details.get("location") or "[0, 1]")
        return position, max(int(length), 1)
    except (KeyError, TypeError, ValueError):
        return None, 1


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Known names that resemble a name, the closest first."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_lower, n=count, cutoff=0.6)
    return [by_lower[each] for each in close]


def describe(query: str, problem: Problem, hint: str | None) -> str:
    """The message of an error: what is wrong, where, and what may be meant."""
    lines = [problem.message]
    if problem.position is not None:
        lines += _pointer(query, problem.position, problem.length)
    if hint:
        lines.append(f"  {hint}")
    return "\n".join(lines)


def _pointer(query: str, position: int, length: int) -> list[str]:
    """The line of the query and a caret below the place; positions are in UTF-8."""
    raw = query.encode()
    if not 0 <= position <= len(raw):
        return []
    start = raw.rfind(b"\n", 0, position) + 1
    stop = raw.find(b"\n", position)
    line = raw[start : len(raw) if stop < 0 else stop]
    before = line[: position - start].decode("utf-8", "replace")
    marked = line[position - start : position - start + length].decode("utf-8", "replace")
    shown = line.decode("utf-8", "replace").replace("\t", " ")
    return [f"  {shown}", f"  {' ' * len(before)}{'^' * max(len(marked), 1)}"]
