"""Limit waits when a timer fires before its deadline.

Deadlines are wall-clock times. If the clock is set back, a deadline may suddenly be an hour away.
Timers use the steady clock, so each check after a timer limits the wait to its maximum again.
"""


def waits_until(deadline_ms: int, now_ms: int, timeout_ms: int) -> int | None:
    """Return when to check again, within `timeout_ms`; None after the deadline."""
    return None if now_ms >= deadline_ms else min(deadline_ms, now_ms + timeout_ms)
