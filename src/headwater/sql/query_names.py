"""Find the topics that a query names.

The tokens are DuckDB's own, so that strings and comments are no names. A name may be qualified:
`shop.orders` is the topic `shop.orders`, like `"shop.orders"`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.sql.topic_table import TableView

_BEFORE_TABLES: Final = frozenset({"from", "join", ",", "table", "describe", "summarize"})


@dataclass(frozen=True, slots=True)
class QueryToken:
    text: str
    is_name: bool
    is_keyword: bool = False


@dataclass(frozen=True, slots=True)
class NamedTopic:
    """A topic as a table: the name in the query, and what it stands for."""

    name: str
    topic: str
    view: TableView
    # Written as schema.table, without quotes.
    is_qualified: bool = False


def named_topics(tokens: Sequence[QueryToken], topics: Collection[str]) -> list[NamedTopic]:
    """Topics in the order in which the query names them first."""
    by_lower: dict[str, str] = {}
    for each in sorted(topics):
        by_lower.setdefault(each.lower(), each)
    found: dict[str, NamedTopic] = {}
    index = 0
    while index < len(tokens):
        token = tokens[index]
        before = tokens[index - 1].text.lower() if index else ""
        if not token.is_name and not (token.is_keyword and before in _BEFORE_TABLES):
            index += 1
            continue
        parts = [_unquoted(token.text)]
        while (
            index + 2 < len(tokens)
            and tokens[index + 1].text == "."
            and (tokens[index + 2].is_name or tokens[index + 2].is_keyword)
        ):
            parts.append(_unquoted(tokens[index + 2].text))
            index += 2
        index += 1
        for count in range(1, len(parts) + 1):
            name = ".".join(parts[:count])
            named = _named(name, topics, by_lower, is_qualified=count > 1)
            if named is not None:
                found.setdefault(name.lower(), named)
    return list(found.values())


def _named(
    name: str, topics: Collection[str], by_lower: dict[str, str], *, is_qualified: bool
) -> NamedTopic | None:
    for view in TableView:
        if not name.lower().endswith(view.value):
            continue
        stem = name[: len(name) - len(view.value)]
        topic = stem if stem in topics else by_lower.get(stem.lower())
        if topic is not None:
            return NamedTopic(name, topic, view, is_qualified)
    return None


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return text[1:-1].replace('""', '"')
    return text


def quoted(name: str) -> str:
    """A name in SQL, in quotes if it needs them."""
    if name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit():
        return name
    return '"' + name.replace('"', '""') + '"'
