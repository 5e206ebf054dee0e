"""Delayed produces of one partition, waiting for the high watermark (MIN-2).

Entries are ordered by offset, so completing some costs nothing for the others.

Note: entries nearly always arrive in that order, but a duplicate batch waits for an older offset.
"""

from typing import Protocol

from headwater.common.error_codes import ErrorCode


class DelayedProduce(Protocol):
    """One partition of a request that waits."""

    def committed(self, code: ErrorCode) -> None:
        """The high watermark reached the offset, or `code` says why not. Called once."""


class DelayedProducePurgatory:
    """All delayed produces of one partition."""

    __slots__ = ("_last_offset", "_offsets")

    def __init__(self) -> None:
        self._offsets: dict[DelayedProduce, int] = {}
        self._last_offset = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, wait: DelayedProduce, offset: int) -> None:
        """Wait until the high watermark reaches an offset."""
        self._offsets[wait] = offset
        if offset < self._last_offset:
            in_order = sorted(self._offsets.items(), key=lambda entry: entry[1])
            self._offsets = dict(in_order)
        else:
            self._last_offset = offset

    def remove(self, wait: DelayedProduce) -> None:
        """Remove an expired entry. It may have completed already."""
        self._offsets.pop(wait, None)

    def check_and_complete(self, high_watermark: int, code: ErrorCode) -> None:
        """Complete the entries up to the high watermark."""
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
        """Complete all entries with an error."""
        waiting, self._offsets = list(self._offsets), {}
        for wait in waiting:
            wait.committed(code)
