"""Check topic names (TO-1), in brokers and in clients before they send a request.

Names become directory names and parts of metric names, hence the few allowed characters.
"""

import re
from typing import Final

LONGEST_NAME: Final = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_error(name: str) -> str | None:
    """Return why a name is invalid, or None."""
    if not name:
        return "a topic name must not be empty"
    if name in (".", ".."):
        return "a topic name must not be '.' or '..'"
    if len(name) > LONGEST_NAME:
        return f"a topic name has at most {LONGEST_NAME} characters, this one {len(name)}"
    if not _LEGAL.fullmatch(name):
        return f"topic name {name!r} has other characters than letters, digits, '.', '_' and '-'"
    return None
