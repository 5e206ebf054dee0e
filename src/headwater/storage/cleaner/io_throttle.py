"""Throttle a cleaning (log.cleaner.io.max.bytes.per.second), report progress.

Clock and sleep are parameters. The limit applies to the whole cleaning, not to each second, so a
slow phase may be made up for, by at most `_MAX_CREDIT_SECONDS`.
"""

from collections.abc import Callable

_MAX_CREDIT_SECONDS = 1.0


class IoThrottle:
    """Sleeps whenever more bytes were moved than the elapsed time allows."""

    __slots__ = ("_bytes_per_second", "_done_at", "_now", "_sleep")

    def __init__(
        self,
        bytes_per_second: int,
        *,
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._now = now
        self._sleep = sleep
        self._done_at = now()

    def limit(self, bytes_per_second: int) -> None:
        """Change the limit from the next call on. Callable on any thread."""
        self._bytes_per_second = bytes_per_second

    def __call__(self, moved_bytes: int) -> None:
        now = self._now()
        # Time at which the limit allows the bytes so far.
        start = max(self._done_at, now - _MAX_CREDIT_SECONDS)
        self._done_at = start + moved_bytes / self._bytes_per_second
        if self._done_at > now:
            self._sleep(self._done_at - now)


class CleaningProgress:
    """Reports the bytes moved so far after every `every_bytes`."""

    __slots__ = ("_done_bytes", "_every_bytes", "_report", "_reported_bytes")

    def __init__(self, every_bytes: int, report: Callable[[int], None]) -> None:
        self._every_bytes = every_bytes
        self._report = report
        self._done_bytes = 0
        self._reported_bytes = 0

    def __call__(self, moved_bytes: int) -> None:
        self._done_bytes += moved_bytes
        if self._done_bytes - self._reported_bytes >= self._every_bytes:
            self._reported_bytes = self._done_bytes
            self._report(self._done_bytes)
