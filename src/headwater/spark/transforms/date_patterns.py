"""Date patterns that Java's SimpleDateFormat and Spark interpret in the same way.

Spark uses DateTimeFormatter, whose letters have partly other meanings. A pattern with such a letter
is refused, so that no date is written differently from Kafka Connect.
"""

import re
from collections.abc import Iterator
from typing import Final

# The runs of a letter that both interpret in the same way.
_SAME: Final = {
    "y": (1, 2, 4),
    "M": (1, 2, 3, 4),
    "d": (1, 2),
    "H": (1, 2),
    "h": (1, 2),
    "m": (1, 2),
    "s": (1, 2),
    "S": (3,),
    "a": (1,),
    "E": (1, 2, 3, 4),
    "X": (1, 2, 3),
    "Z": (1, 2, 3),
}
_TOKENS: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)


def pattern_problem(pattern: str) -> str | None:
    """Return why a pattern cannot be used, in one line; None if it can."""
    if pattern.replace("''", "").count("'") % 2:
        return f"has a quote without an end: {pattern}"
    for run in _letter_runs(pattern):
        lengths = _SAME.get(run[0])
        if lengths is None or len(run) not in lengths:
            return f"has {run}, which Spark formats differently from Kafka Connect: {pattern}"
    return None


def _letter_runs(pattern: str) -> Iterator[str]:
    for match in _TOKENS.finditer(pattern):
        if match.group(1) is not None:
            yield match.group(0)
