"""Durations in pipelines: `500ms`, `10 minutes`, `1 hour 30 minutes`."""

import re
from typing import Final

_PART: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_UNITS_MS: Final = {
    "ms": 1,
    "millisecond": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "week": 604_800_000,
}


def duration_ms(text: str) -> int | None:
    """Parse a duration; return None if it is not one."""
    rest = text.lower().removeprefix("interval ")
    if not rest.strip():
        return None
    total = 0.0
    while rest:
        part = _PART.match(rest)
        if part is None:
            return None
        unit = part[2]
        size_ms = _UNITS_MS.get(unit) or _UNITS_MS.get(unit.removesuffix("s"))
        if size_ms is None:
            return None
        total += float(part[1]) * size_ms
        rest = rest[part.end() :]
    return round(total)
