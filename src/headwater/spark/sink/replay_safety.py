"""Decide whether a repeated batch sends the same rows through the same tasks.

Exactly-once delivery depends on it, so `write_stream` checks it before it starts a query. The check
reads the physical plan as Spark prints it: it has every shuffle, including the ones that Spark adds
itself, and it is the only form that Spark Connect offers.

Note: only the last shuffle before the sink counts. Rows that are partitioned by their own columns
reach the same task again, whatever was shuffled before; with a single task there is no choice.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headwater.spark.exceptions import UnsafeReplay

_HEADING: Final = "== Physical Plan =="
_LINE: Final = re.compile(r"(?P<indent>[ :]*)(?P<branch>[+:]- )?(?:\*(?:\(\d+\))? )?(?P<node>.*)")
_SHUFFLE: Final = re.compile(
    r"(?:ReusedExchange \[.*?\], )?Exchange (?P<kind>\w+)(?:\((?P<keys>.*)\))?, (?P<origin>[A-Z_]+)"
)
_COALESCE: Final = re.compile(r"Coalesce (\d+)")
# Inputs below these nodes are complete before the first row, and do not affect the distribution.
_ASIDE: Final = ("BroadcastExchange", "Subquery", "ReusedSubquery")
_ID: Final = re.compile(r"#(\d+)")
_DEFINED: Final = re.compile(r" AS [^#,\]]*#(\d+)")
# Different with each execution, or with each order of rows.
_RANDOM: Final = re.compile(
    r"\b(?:rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id|"
    r"spark_partition_id|input_file_name)\(",
    re.IGNORECASE,
)
_ADAPTIVE: Final = "AdaptiveSparkPlan"
_AS_ASKED: Final = "REPARTITION_BY_NUM"
_ADVICE: Final = (
    "; exactly-once needs the same rows in the same tasks when a batch is repeated: shuffle by the "
    'rows\' own columns, as repartition(n, "key") does, or write at-least-once'
)


@dataclass(frozen=True, slots=True)
class _Node:
    depth: int
    text: str


def check_replay_safe(plan: str) -> None:
    """Raise `UnsafeReplay` if a repeated batch may distribute rows differently."""
    reason = unstable(plan)
    if reason is not None:
        raise UnsafeReplay(reason + _ADVICE)


def unstable(plan: str) -> str | None:
    """Return why a repeated plan may differ; None if it cannot."""
    nodes = list(_nodes(plan))
    random_ids = _random_ids(nodes)
    is_adaptive = any(node.text.startswith(_ADAPTIVE) for node in nodes)
    for shuffle, is_coalesced in _last_shuffles(nodes):
        reason = _unsafe_reason(
            shuffle, random_ids, is_adaptive=is_adaptive, is_coalesced=is_coalesced
        )
        if reason is not None:
            return reason
    return None


def _nodes(plan: str) -> Iterator[_Node]:
    """Yield the plan's nodes, from the sink to the sources; text may contain newlines."""
    lines = plan.partition(_HEADING)[2].strip("\n").split("\n")
    depth, text = 0, ""
    for line in lines:
        found = _LINE.fullmatch(line)
        assert found is not None, "the expression takes any line"
        if text and found["branch"] is None:
            text += line
            continue
        if text:
            yield _Node(depth, text)
        depth, text = len(found["indent"] + (found["branch"] or "")) // 3, found["node"]
    yield _Node(depth, text)


def _last_shuffles(nodes: list[_Node]) -> Iterator[tuple[re.Match[str], bool]]:
    """Return the last shuffles before the sink, and whether a coalesce follows."""
    hidden_below: int | None = None
    coalesced_below: int | None = None
    for node in nodes:
        if hidden_below is not None and node.depth > hidden_below:
            continue
        hidden_below = None
        if coalesced_below is not None and node.depth <= coalesced_below:
            coalesced_below = None
        if (coalesce := _COALESCE.match(node.text)) is not None:
            if coalesce[1] == "1":
                hidden_below = node.depth
            elif coalesced_below is None:
                coalesced_below = node.depth
        elif node.text.startswith(_ASIDE):
            hidden_below = node.depth
        elif (shuffle := _SHUFFLE.match(node.text)) is not None:
            hidden_below = node.depth
            yield shuffle, coalesced_below is not None


def _unsafe_reason(
    shuffle: re.Match[str], random_ids: frozenset[str], *, is_adaptive: bool, is_coalesced: bool
) -> str | None:
    kind, keys = shuffle["kind"], shuffle["keys"] or ""
    match kind:
        case "SinglePartition":
            return None
        case "RoundRobinPartitioning":
            return "a repartition without columns distributes rows round-robin"
        case "rangepartitioning":
            return "sorting, or a repartition by range, distributes rows by samples of them"
    if _RANDOM.search(keys) or not random_ids.isdisjoint(_ID.findall(keys)):
        return "the rows are shuffled by a column that is random"
    if is_coalesced:
        return "a coalesce after a shuffle groups partitions by their location"
    if is_adaptive and shuffle["origin"] != _AS_ASKED:
        return "Spark may change the number of tasks at run time (spark.sql.adaptive)"
    return None


def _random_ids(nodes: list[_Node]) -> frozenset[str]:
    """Return columns that are directly or indirectly random."""
    definitions = [
        (found[1], _expression_before(node.text, found.start()))
        for node in nodes
        for found in _DEFINED.finditer(node.text)
    ]
    random_ids: set[str] = set()
    is_growing = True
    while is_growing:
        before = len(random_ids)
        for column_id, expression in definitions:
            if _RANDOM.search(expression) or not random_ids.isdisjoint(_ID.findall(expression)):
                random_ids.add(column_id)
        is_growing = len(random_ids) > before
    return frozenset(random_ids)


def _expression_before(text: str, end: int) -> str:
    """Return the expression before an AS."""
    open_count = 0
    for position in range(end - 1, -1, -1):
        letter = text[position]
        if letter in ")]":
            open_count += 1
        elif letter in "([":
            if not open_count:
                return text[position + 1 : end]
            open_count -= 1
        elif letter == "," and not open_count:
            return text[position + 1 : end]
    return text[:end]
