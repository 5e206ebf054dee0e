"""Parse times and durations in the formats of Kafka's tools."""

import re
from datetime import datetime
from typing import Final

import typer

_SHORT: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


def timestamp_ms(text: str) -> int:
    """Milliseconds since 1970, or an ISO 8601 time; local time if it has no zone."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time such as 2026-01-31T12:00") from None
    return int(moment.astimezone().timestamp() * 1000)


def duration_ms(text: str) -> int:
    """An ISO 8601 duration, such as PT6H or P2D."""
    from headwater.client.consumer.auto_offset_reset import parse_duration

    try:
        return parse_duration(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a duration such as PT6H or P2DT30M") from None


def short_duration_ms(text: str) -> int:
    """A duration such as 90s, 5m, 1h or 1h30m; or ISO 8601, such as PT5M."""
    parts = _SHORT.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))
    if text.startswith("P"):
        return duration_ms(text)
    raise typer.BadParameter(f"{text!r} is not a duration such as 90s, 5m or 1h30m")


def short_duration(milliseconds: int) -> str:
    """Two units at most: 350ms, 42s, 5m 10s, 3d 4h."""
    if milliseconds < 1_000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    parts = []
    left = milliseconds
    for unit, size_ms in _UNITS_MS.items():
        count, left = divmod(left, size_ms)
        if count and unit != "ms":
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return " ".join(parts)
