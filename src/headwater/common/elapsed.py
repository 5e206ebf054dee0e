"""Check whether an interval has passed on the wall clock.

Note: that clock may be set back, even by a day, and what was due in a second would then be due in a
day. So a time in the future counts as passed.
"""


def has_passed(since_ms: int | None, interval_ms: int, now_ms: int) -> bool:
    """Return whether the interval has passed since `since_ms`; None means never done."""
    return since_ms is None or not since_ms <= now_ms < since_ms + interval_ms
