"""Memory for cold reads that is used again instead of given back.

A cold read of a megabyte into fresh memory costs as much for the memory as for the bytes: the
system fills in page after page, and takes them away again when the answer has been sent, on the
loop's thread and with the interpreter's lock.

What a reader would get wrong: nobody gives a block back. A block is spare when nothing refers to it
but this list, which is when the last view of it is gone, wherever that was. So there is no moment
at which a forgotten call could have one block sent to two consumers.
"""

import mmap
import sys
import threading
from typing import Final

BLOCK_BYTES: Final = 1 << 20
"""What a consumer asks of one partition by default."""


class ReadBufferPool:
    """At most `limit` blocks are kept; whatever is larger, or more at a time, is fresh memory.

    Safe from several threads.
    """

    def __init__(self, limit: int = 4) -> None:
        self._limit = limit
        self._blocks: list[mmap.mmap] = []
        self._lock = threading.Lock()

    def take(self, length: int) -> memoryview:
        """Memory of that length, whose content is undefined; free when no view of it is left."""
        if length > BLOCK_BYTES:
            return memoryview(_fresh(length))
        with self._lock:
            block = self._spare_block()
            return memoryview(block)[:length]

    def _spare_block(self) -> mmap.mmap:
        for index in range(len(self._blocks)):
            # One for the list; the other is the argument of the question.
            if sys.getrefcount(self._blocks[index]) <= 2:
                return self._blocks[index]
        block = _fresh(BLOCK_BYTES)
        if len(self._blocks) < self._limit:
            self._blocks.append(block)
        return block


def _fresh(length: int) -> mmap.mmap:
    """Memory of the system's, which fills its pages while it reads.

    A bytearray would be zeroed first, within the interpreter's lock, where the loop waits for it.
    Not shared with other processes, as it would be by default and at twice the price.
    """
    return mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
