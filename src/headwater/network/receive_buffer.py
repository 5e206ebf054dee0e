"""The receive buffer of a connection, and the frames in it.

    0          start                          end           capacity
    | consumed | size | a frame | size | a fr | room         |

Note: a frame is a view of this buffer, not a copy. It is only valid until the next call of
`get_buffer` or `trim`; code that needs it longer copies it, or takes over the whole buffer with
`detach`.

The buffer grows with the bytes that have arrived, not with what a size field announces, so that a
peer which announces 100 MiB and sends nothing costs nothing. It stays large while the peer is busy,
because a new buffer for each large frame would cost as much as receiving it; `trim` makes it small
again.
"""

import struct
from collections.abc import Callable

from headwater.common.exceptions import ProtocolError

# The size for an idle connection.
SMALL_BYTES = 4_096
# The size after the small buffer was full, so that many small frames arrive in one call.
BUSY_BYTES = 65_536
# For larger frames the buffer grows by this factor each time it is full.
_GROWTH = 4

_SIZE = struct.Struct(">i")
_SIZE_BYTES = _SIZE.size


class ReceiveBuffer:
    """Receives bytes and returns frames."""

    __slots__ = ("_end", "_frame_bytes", "_limit_bytes", "_memory", "_start", "_view")

    def __init__(
        self,
        frame_limit_bytes: int,
        memory: Callable[[int], memoryview] = lambda capacity: memoryview(bytearray(capacity)),
    ) -> None:
        self._limit_bytes = frame_limit_bytes
        self._memory = memory
        self._view = memory(SMALL_BYTES)
        self._start = 0
        self._end = 0
        self._frame_bytes = 0

    @property
    def capacity_bytes(self) -> int:
        return len(self._view)

    def limit_frames(self, limit_bytes: int) -> None:
        """Limit the size of frames, from the next one on."""
        self._limit_bytes = limit_bytes

    @property
    def is_empty(self) -> bool:
        return self._start == self._end

    @property
    def awaited_bytes(self) -> int:
        """The size of the frame that is arriving, with its size field; 0 if it is unknown.

        Valid after `next_frame` has returned None.
        """
        return self._frame_bytes

    def get_buffer(self) -> memoryview:
        """Return where to put the next bytes; never empty. Invalidates all earlier frames.

        Only valid after `next_frame` has returned None. For a large frame the room ends with the
        frame: bytes after it would have to be moved to the front.
        """
        frame_bytes = self._frame_bytes
        capacity = len(self._view)
        if self._end == capacity or (self._start and self._start + frame_bytes > capacity):
            self._make_room()
        elif self._start == self._end:
            self._start = self._end = 0
        if frame_bytes > BUSY_BYTES:
            return self._view[self._end : self._start + frame_bytes]
        return self._view[self._end :] if self._end else self._view

    def buffer_updated(self, count: int) -> bool:
        """Add received bytes; return whether the current frame is still incomplete."""
        self._end += count
        return self._end - self._start < self._frame_bytes

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame without its size field, or None."""
        start = self._start
        have = self._end - start
        if have < _SIZE_BYTES:
            self._frame_bytes = 0
            return None
        (size,) = _SIZE.unpack_from(self._view, start)
        if not 0 <= size <= self._limit_bytes:
            raise ProtocolError(f"frame of {size} bytes exceeds the limit of {self._limit_bytes}")
        frame_bytes = _SIZE_BYTES + size
        if have < frame_bytes:
            self._frame_bytes = frame_bytes
            return None
        self._frame_bytes = 0
        self._start = start + frame_bytes
        return self._view[start + _SIZE_BYTES : start + frame_bytes]

    def detach(self, frame: memoryview) -> bool:
        """Switch to new memory, so that the last frame stays valid.

        Returns False, and does nothing, if the frame fills less than half of the memory, which
        would be kept as a whole.
        """
        capacity = len(self._view)
        if 2 * len(frame) < capacity:
            return False
        rest = self._view[self._start : self._end]
        self._view = self._memory(capacity)
        self._view[: len(rest)] = rest
        self._start, self._end = 0, len(rest)
        return True

    def trim(self) -> None:
        """Shrink the buffer, unless it is in use."""
        if self._end - self._start <= SMALL_BYTES < len(self._view):
            self._move_to(SMALL_BYTES)

    def _make_room(self) -> None:
        """Move the rest to the front, or to a larger buffer if this one was full."""
        capacity = len(self._view)
        if capacity < BUSY_BYTES:
            self._move_to(BUSY_BYTES)
        elif self._end - self._start == capacity:
            # Multiples of a block, so that frames of nearly one size do not each make it grow a
            # little.
            whole = -(-self._frame_bytes // BUSY_BYTES) * BUSY_BYTES
            self._move_to(min(whole, capacity * _GROWTH))
        else:
            self._move_to(capacity)

    def _move_to(self, capacity: int) -> None:
        kept = self._view[self._start : self._end]
        if capacity != len(self._view):
            self._view = self._memory(capacity)
        self._view[: len(kept)] = kept
        self._start, self._end = 0, len(kept)
