"""Memory for records that are not confirmed (`buffer.memory`), given out first come, first served.

Pure bookkeeping, under the accumulator's lock; nothing is allocated here. What a reader would get
wrong: as long as anybody is in line, nobody takes what is free past them. A record that needs much
would otherwise wait for ever, since every small one that comes meanwhile takes a bit of what it
waits for. Who only joins an open batch needs no memory and is not held up.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

# Who waits is served when so much of the memory is free, not for every batch: a thread that runs
# for a while between two waits is cheaper than one that waits for each batch.
_RESUME_SHARE: Final = 8


def _nobody() -> None:
    """Nobody listens yet."""


class MemoryClaim:
    """A caller's place in line, and in the end the memory that was set aside for it."""

    __slots__ = ("granted_bytes", "is_called", "needed_bytes", "on_called")

    def __init__(self, needed_bytes: int) -> None:
        self.needed_bytes = needed_bytes
        self.granted_bytes = 0
        self.is_called = False
        """Whether to come back: the memory is there, or there is no use in waiting any more."""
        self.on_called: Callable[[], object] = _nobody

    def call(self) -> None:
        self.is_called = True
        self.on_called()


class BufferPool:
    """All memory of a producer: how much is free, and who is in line for it."""

    def __init__(self, total_bytes: int, *, batch_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.free_bytes = total_bytes
        self._resume_bytes = min(total_bytes, max(batch_bytes, total_bytes // _RESUME_SHARE))
        self._line: deque[MemoryClaim] = deque()

    @property
    def waiting_count(self) -> int:
        """How many are in line."""
        return len(self._line)

    def fits(self, needed_bytes: int) -> bool:
        """Whether memory could ever hold that much."""
        return needed_bytes <= self.total_bytes

    def take(self, needed_bytes: int, claim: MemoryClaim | None = None) -> bool:
        """Take so much now, if it is there and nobody else's turn; with a claim, also of that."""
        if claim is not None and claim.granted_bytes:
            self._take_back(claim)
        elif self._line:
            return False
        if needed_bytes > self.free_bytes:
            return False
        self.free_bytes -= needed_bytes
        return True

    def wait_in_line(self, needed_bytes: int, claim: MemoryClaim | None = None) -> MemoryClaim:
        """Wait for so much: behind all others, or before them with a claim that was called."""
        if claim is None:
            claim = MemoryClaim(needed_bytes)
            self._line.append(claim)
        else:
            # Batches have become larger since, because their topic compresses better.
            claim.needed_bytes = needed_bytes
            if claim.is_called:
                claim.is_called = False
                self._line.appendleft(claim)
        return claim

    def give_back(self, size_bytes: int) -> None:
        """So much is free again."""
        self.free_bytes += size_bytes
        self._serve()

    def leave(self, claim: MemoryClaim) -> None:
        """Wait no longer; what was set aside is for others. May be called again."""
        self._take_back(claim)
        if claim in self._line:
            self._line.remove(claim)
        self._serve()

    def call_all(self) -> None:
        """Nobody need wait any more: whoever comes back is told why."""
        while self._line:
            self._line.popleft().call()

    def _take_back(self, claim: MemoryClaim) -> None:
        self.free_bytes += claim.granted_bytes
        claim.granted_bytes = 0

    def _serve(self) -> None:
        line = self._line
        if not line or self.free_bytes < self._resume_bytes:
            return
        while line and line[0].needed_bytes <= self.free_bytes:
            claim = line.popleft()
            claim.granted_bytes = claim.needed_bytes
            self.free_bytes -= claim.needed_bytes
            claim.call()
