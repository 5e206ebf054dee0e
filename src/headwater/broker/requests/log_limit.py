"""Limit how often the same warning is logged.

Clients retry a failing request every 100 ms; the reason is logged once per interval.
"""

from typing import Final

INTERVAL_MS: Final = 30_000


class LogLimit:
    """Remembers when each warning was last logged. Keys are from a small, fixed set."""

    def __init__(self, interval_ms: int = INTERVAL_MS) -> None:
        self._interval_ms = interval_ms
        self._last_ms: dict[str, int] = {}

    def is_due(self, key: str, now_ms: int) -> bool:
        """Whether to log now. True starts the next interval."""
        last_ms = self._last_ms.get(key)
        if last_ms is not None and now_ms - last_ms < self._interval_ms:
            return False
        self._last_ms[key] = now_ms
        return True
