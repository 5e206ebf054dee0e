"""Whoever waits until the in-sync replicas of a partition have what was appended (MIN-2).

Those that wait stand in the order of their offsets, so telling some costs nothing for the others.
What a reader would get wrong: they nearly always come in that order, since they were appended in
it, but a repeated batch of a producer asks for an older offset.
"""

from typing import Protocol

from headwater.common.error_codes import ErrorCode


class DelayedProduce(Protocol):
    """One partition of a request that waits."""

    def committed(self, code: ErrorCode) -> None:
        """All have it, or something has gone wrong. Called once, unless it left before."""


class DelayedProducePurgatory:
    """All that wait at one partition."""

    __slots__ = ("_last_offset", "_offsets")

    def __init__(self) -> None:
        self._offsets: dict[DelayedProduce, int] = {}
        self._last_offset = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, wait: DelayedProduce, offset: int) -> None:
        """Wait until the high watermark has reached an offset."""
        self._offsets[wait] = offset
        if offset < self._last_offset:
            in_order = sorted(self._offsets.items(), key=lambda entry: entry[1])
            self._offsets = dict(in_order)
        else:
            self._last_offset = offset

    def leave(self, wait: DelayedProduce) -> None:
        """Its time is over. It may have been told already."""
        self._offsets.pop(wait, None)

    def reached(self, high_watermark: int, code: ErrorCode) -> None:
        """Tell those who waited for this."""
        done = []
        for wait, offset in self._offsets.items():
            if offset > high_watermark:
                break
            done.append(wait)
        for wait in done:
            del self._offsets[wait]
        for wait in done:
            wait.committed(code)

    def fail(self, code: ErrorCode) -> None:
        """Tell everybody: nothing will come of it here."""
        waiting, self._offsets = list(self._offsets), {}
        for wait in waiting:
            wait.committed(code)
