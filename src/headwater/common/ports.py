"""The world as parameters: what pure code may not reach for, it is given.

The disk has ports of its own, in `headwater.storage.io.disk`, because only that room has one.
"""

from typing import Protocol


class Clock(Protocol):
    """Wall time for timestamps, and a steady time that never steps back for waits."""

    def now_ms(self) -> int: ...

    def steady_ms(self) -> int: ...


class Random(Protocol):
    """All randomness of a process; the simulator's dice are loaded with the seed."""

    def below(self, limit: int) -> int: ...

    def bytes(self, count: int) -> bytes: ...
