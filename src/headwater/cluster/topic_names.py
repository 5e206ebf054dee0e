"""What a topic may be called (TO-1).

Names end up as folder names and as parts of metric names, hence the few characters. A metric name
cannot tell a dot from an underscore, hence the collisions.
"""

import re
from typing import Final

CLUSTER_METADATA: Final = "__cluster_metadata"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"

INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})

LONGEST_NAME: Final = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def why_illegal(name: str) -> str | None:
    """What is wrong with a name, or None."""
    if not name:
        return "a topic name must not be empty"
    if name in (".", ".."):
        return "a topic cannot be called '.' or '..'"
    if len(name) > LONGEST_NAME:
        return f"a topic name has at most {LONGEST_NAME} characters, this one {len(name)}"
    if not _LEGAL.fullmatch(name):
        return f"topic name {name!r} has other characters than letters, digits, '.', '_' and '-'"
    return None


def colliding_key(name: str) -> str | None:
    """Names with equal keys cannot exist together; a name without a key collides with none."""
    if "." not in name and "_" not in name:
        return None
    return name.replace(".", "_")
