"""Find the tables that a SQL query reads, to order steps without Spark.

This is not a parser. It looks for names after FROM and JOIN, excludes names that the query defines
(WITH), functions (`from range(3)`) and tables of a catalog (`from lake.orders`). `sql_grammar`
checks the syntax.
"""

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*"
    |(`(?:[^`]|``)+`|[A-Za-z_][A-Za-z0-9_]*)|([().,])|[^\s]""",
    re.DOTALL | re.VERBOSE,
)
# Functions with a FROM inside their parentheses that names no table.
_FROM_INSIDE: Final = frozenset({"extract", "trim", "substring", "substr", "overlay"})
_ENDS_A_LIST: Final = frozenset(
    {"where", "group", "having", "order", "sort", "cluster", "distribute", "limit", "window"}
    | {"union", "intersect", "except", "minus", "on", "using", "select", "qualify"}
)
_NOT_A_TABLE: Final = frozenset({"lateral", "select", "values", "unnest"})


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    is_name: bool


def tables_in(sql: str) -> list[str]:
    """Return the table names, without duplicates, in the order of the text."""
    tokens = [
        _Token(found[1] or found[2], found[1] is not None)
        for found in _TOKEN.finditer(sql)
        if found[1] or found[2]
    ]
    own = _named_inside(tokens)
    found: dict[str, None] = {}
    for at in _after_from(tokens):
        name = _table_at(tokens, at)
        if name is not None and name.lower() not in own:
            found.setdefault(name)
    return list(found)


def _word(token: _Token) -> str:
    return token.text.lower() if token.is_name else token.text


def _named_inside(tokens: list[_Token]) -> set[str]:
    """Return names defined by WITH: a name, optional columns, then `as (`."""
    words = [_word(each) for each in tokens]
    if "with" not in words:
        return set()
    named = set()
    for at in range(1, len(words) - 2):
        if words[at - 1] in ("with", "recursive", ",") and tokens[at].is_name:
            end = words.index(")", at) + 1 if words[at + 1] == "(" and ")" in words[at:] else at + 1
            if words[end : end + 2] == ["as", "("]:
                named.add(words[at].strip("`"))
    return named


def _after_from(tokens: list[_Token]) -> list[int]:
    """Yield positions at which a table name may follow."""
    places = []
    # For each open parenthesis, the word before it, and whether a list of tables continues there.
    callers = [""]
    listing = [False]
    for at, token in enumerate(tokens):
        word = _word(token)
        before = _word(tokens[at - 1]) if at else ""
        if word == "(":
            callers.append(before)
            listing.append(False)
        elif word == ")" and len(callers) > 1:
            callers.pop()
            listing.pop()
        elif word == "join" or (word == "," and listing[-1]):
            places.append(at + 1)
        elif word == "from" and before != "distinct" and callers[-1] not in _FROM_INSIDE:
            listing[-1] = True
            places.append(at + 1)
        elif word in _ENDS_A_LIST:
            listing[-1] = False
    return places


def _table_at(tokens: list[_Token], at: int) -> str | None:
    if at >= len(tokens) or not tokens[at].is_name or _word(tokens[at]) in _NOT_A_TABLE:
        return None
    following = tokens[at + 1].text if at + 1 < len(tokens) else ""
    if following in ("(", "."):
        return None
    return tokens[at].text.strip("`")
