"""Parse times and durations in the formats of Kafka's tools."""

from datetime import datetime

import typer


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
