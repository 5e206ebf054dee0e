"""Whether a name matches a pattern of `patternProperties`, as far as that can be told cheaply.

What a reader would get wrong: "cannot tell" is an answer. Patterns come from whoever may register
schemas, and a short one can keep Python's matcher busy for years; so only those are tried that
cannot branch much. Who asks must be right in either case.
"""

import re
from functools import lru_cache
from typing import Final

_PATTERN_CHARS_MAX: Final = 200
_NAME_CHARS_MAX: Final = 100
_REPETITIONS_MAX: Final = 2
_CHOICES_MAX: Final = 8
# What stands for itself: an escaped character, a class, the beginning of a group of some kind.
_OPAQUE: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[:=!]", re.DOTALL)
_REPEATED_GROUP: Final = re.compile(r"\)[*+?{]")


def matches(pattern: str, name: str) -> bool | None:
    """None if it cannot be told."""
    if len(name) > _NAME_CHARS_MAX:
        return None
    found = _compiled(pattern)
    return None if found is None else found.search(name) is not None


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    if len(pattern) > _PATTERN_CHARS_MAX or not _is_tame(pattern):
        return None
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        # Other languages have patterns that Python has not.
        return None


def _is_tame(pattern: str) -> bool:
    bare = _OPAQUE.sub(lambda found: "(" if found[0].startswith("(") else "x", pattern)
    repetitions = sum(bare.count(each) for each in "*+?{")
    return (
        repetitions <= _REPETITIONS_MAX
        and bare.count("|") <= _CHOICES_MAX
        and not _REPEATED_GROUP.search(bare)
        and not re.search(r"\\\d", pattern)
    )
