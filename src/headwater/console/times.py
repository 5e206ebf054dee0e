"""Parse times that users type, and format times for pages."""

from datetime import UTC, datetime

from headwater.console.console_errors import bad_request


def read_time(text: str) -> int:
    """Parse milliseconds since the epoch, or ISO 8601. A time without a zone is UTC."""
    given = text.strip()
    if given.isascii() and given.isdecimal() and len(given) < 16:
        return int(given)
    try:
        moment = datetime.fromisoformat(given)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        # Negative timestamps have special meanings in ListOffsets (latest, earliest).
        return max(int(moment.timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        raise bad_request(
            f"'{given[:40]}' is not a time. Use 2026-01-31T12:00 (UTC) or milliseconds."
        ) from None


def time_text(timestamp_ms: int) -> str:
    """Format as UTC with milliseconds; numbers outside the calendar as they are."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{timestamp_ms % 1000:03}"


def age_text(age_ms: int) -> str:
    """Format an age in its largest suitable unit."""
    seconds = age_ms // 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def clock_text(timestamp_ms: int) -> str:
    """Format the time of day as UTC."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%H:%M:%S")
