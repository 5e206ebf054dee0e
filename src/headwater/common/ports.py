"""Clock and Random ports, passed to pure code as parameters.

The disk port is `headwater.storage.io.disk`, because only storage has a disk.
"""

from typing import Protocol


class Clock(Protocol):
    """Wall clock for timestamps, and a monotonic clock for waits."""

    def now_ms(self) -> int: ...

    def steady_ms(self) -> int: ...


class Random(Protocol):
    """Random source of a process; the simulator seeds its own."""

    def below(self, limit: int) -> int: ...

    def bytes(self, count: int) -> bytes: ...
