"""Until when somebody is waited for, when a timer fires before the deadline.

Deadlines are times of the wall clock. What a reader would get wrong: that may be set back while
somebody is waited for, and the deadline be an hour away all of a sudden. Timers go by the steady
clock, so each look at one that has fired shortens the wait again to what it may be at most.
"""


def waits_until(deadline_ms: int, now_ms: int, timeout_ms: int) -> int | None:
    """When to look again; None if the time is over. Nobody waits for longer than `timeout_ms`."""
    return None if now_ms >= deadline_ms else min(deadline_ms, now_ms + timeout_ms)
