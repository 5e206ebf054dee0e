"""Times and durations as people write them, and as Kafka's tools take them."""

from datetime import datetime

import typer


def timestamp_ms(text: str) -> int:
    """A time as people write it. One without a zone is of this machine's zone."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time such as 2026-01-31T12:00") from None
    return int(moment.astimezone().timestamp() * 1000)


def duration_ms(text: str) -> int:
    """A duration of ISO 8601, such as PT6H or P2D."""
    from headwater.client.consumer.auto_offset_reset import parse_duration

    try:
        return parse_duration(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no duration such as PT6H or P2DT30M") from None
