"""Whether it is time again for something that comes round by the wall clock.

What a reader would get wrong: that clock may be set back, by a day even, and what was due in a
second would then be due in a day. So whatever lies in the future has passed.
"""


def has_passed(since_ms: int | None, interval_ms: int, now_ms: int) -> bool:
    """Whether so much time has gone by since then; None is never, and long ago."""
    return since_ms is None or not since_ms <= now_ms < since_ms + interval_ms
