"""Pool of buffers for cold reads.

A cold read of a megabyte into fresh memory costs as much for the memory as for the bytes: the
kernel maps page after page, and unmaps them again when the response has been sent, on the event
loop's thread and with the GIL held.

Note: blocks are not returned explicitly. A block is free when only this pool refers to it, which is
when the last view of it has been garbage-collected. So a missing or premature release cannot send
one block to two consumers.
"""

import mmap
import sys
import threading
from typing import Final

BLOCK_BYTES: Final = 1 << 20
"""Default `max.partition.fetch.bytes`."""


class ReadBufferPool:
    """Keeps at most `limit` blocks; other requests get fresh memory. Thread-safe."""

    def __init__(self, limit: int = 4) -> None:
        self._limit = limit
        self._blocks: list[mmap.mmap] = []
        self._lock = threading.Lock()

    def take(self, length: int) -> memoryview:
        """Return memory with undefined content, freed with the last view of it."""
        if length > BLOCK_BYTES:
            return memoryview(_fresh(length))
        with self._lock:
            block = self._spare_block()
            return memoryview(block)[:length]

    def _spare_block(self) -> mmap.mmap:
        for index in range(len(self._blocks)):
            # One reference is the list's, the other is the argument of `getrefcount`.
            if sys.getrefcount(self._blocks[index]) <= 2:
                return self._blocks[index]
        block = _fresh(BLOCK_BYTES)
        if len(self._blocks) < self._limit:
            self._blocks.append(block)
        return block


def _fresh(length: int) -> mmap.mmap:
    """Allocate anonymous memory whose pages are filled during the read.

    A bytearray would be zeroed first, under the GIL, while the event loop waits for it.
    MAP_PRIVATE, because the default MAP_SHARED takes twice the time.
    """
    return mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
