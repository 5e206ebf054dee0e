"""What a topic may be called (TO-1). Brokers hold to it, and clients refuse before they ask.

Names end up as folder names and as parts of metric names, hence the few characters.
"""

import re
from typing import Final

LONGEST_NAME: Final = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def why_invalid(name: str) -> str | None:
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
