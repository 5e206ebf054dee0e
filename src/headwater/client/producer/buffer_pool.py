"""Account for `buffer.memory`, first come, first served, as Kafka's BufferPool.

Pure bookkeeping under the accumulator's lock; nothing is allocated here.

Note: while callers wait, new ones cannot take free memory past them; otherwise a large record could
wait forever while small ones take the memory. Appending to an open batch needs no memory and never
waits.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

# Waiting callers are served when this share of the memory is free, not after every batch: fewer
# and longer runs of the calling thread are cheaper.
_RESUME_SHARE: Final = 8


def _ignore() -> None:
    """The default of `on_called`."""


class MemoryClaim:
    """A caller's place in the queue, and the memory that is granted to it."""

    __slots__ = ("granted_bytes", "is_called", "needed_bytes", "on_called")

    def __init__(self, needed_bytes: int) -> None:
        self.needed_bytes = needed_bytes
        self.granted_bytes = 0
        self.is_called = False
        """Whether to continue: memory was granted, or waiting is pointless."""
        self.on_called: Callable[[], object] = _ignore

    def call(self) -> None:
        self.is_called = True
        self.on_called()


class BufferPool:
    """The memory of a producer: free bytes and the queue of waiting callers."""

    def __init__(self, total_bytes: int, *, batch_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.free_bytes = total_bytes
        self._resume_bytes = min(total_bytes, max(batch_bytes, total_bytes // _RESUME_SHARE))
        self._line: deque[MemoryClaim] = deque()

    @property
    def waiting_count(self) -> int:
        """The number of waiting callers."""
        return len(self._line)

    def fits(self, needed_bytes: int) -> bool:
        """Whether this much could ever be granted."""
        return needed_bytes <= self.total_bytes

    def allocate(self, needed_bytes: int, claim: MemoryClaim | None = None) -> bool:
        """Take free memory now, if no other caller waits; use a granted claim first."""
        if claim is not None and claim.granted_bytes:
            self._take_back(claim)
        elif self._line:
            return False
        if needed_bytes > self.free_bytes:
            return False
        self.free_bytes -= needed_bytes
        return True

    def enqueue(self, needed_bytes: int, claim: MemoryClaim | None = None) -> MemoryClaim:
        """Queue for memory, at the end, or at the front with a claim called before."""
        if claim is None:
            claim = MemoryClaim(needed_bytes)
            self._line.append(claim)
        else:
            # Batches grow when the compression ratio of their topic improves.
            claim.needed_bytes = needed_bytes
            if claim.is_called:
                claim.is_called = False
                self._line.appendleft(claim)
        return claim

    def deallocate(self, size_bytes: int) -> None:
        """Release memory."""
        self.free_bytes += size_bytes
        self._serve()

    def cancel(self, claim: MemoryClaim) -> None:
        """Stop waiting and release granted memory. Idempotent."""
        self._take_back(claim)
        if claim in self._line:
            self._line.remove(claim)
        self._serve()

    def notify_all(self) -> None:
        """Wake all waiting callers, to make them fail."""
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
