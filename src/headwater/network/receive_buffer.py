"""The one buffer that a connection receives into, and the frames that are cut out of it in place.

    0          start                          end           capacity
    | consumed | size | a frame | size | a fr | room         |

What a reader would get wrong: a frame is a view of this buffer, not a copy. Its bytes are those of
the request only until the next call of `room` or `trim`; whoever needs them longer copies them, or
has the whole buffer left to them by `leave_behind`.

The buffer grows with what has arrived and not with what a size field promises, so that a peer
which announces 100 MiB and sends nothing costs nothing. It stays large while the peer is busy,
because a new buffer for each large frame would cost as much as receiving it; `trim` makes it small
again.
"""

import struct
from collections.abc import Callable

from headwater.common.exceptions import ProtocolError

# An idle connection costs this much.
SMALL_BYTES = 4_096
# One that fills the small buffer gets this much, so that many small frames come in one call.
BUSY_BYTES = 65_536
# A frame larger than that makes the buffer grow by this factor each time it is full.
_GROWTH = 4

_SIZE = struct.Struct(">i")
_SIZE_BYTES = _SIZE.size


class ReceiveBuffer:
    """Bytes in, frames out."""

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
        """Take frames up to that size from the next one on."""
        self._limit_bytes = limit_bytes

    @property
    def is_empty(self) -> bool:
        return self._start == self._end

    @property
    def awaited_bytes(self) -> int:
        """The size of the frame that has begun to arrive; 0 when not even its size is known.

        Counts the size field. To be asked after `next_frame` has returned None.
        """
        return self._frame_bytes

    def room(self) -> memoryview:
        """Where the next bytes go; never empty. Ends all frames that were cut before.

        To be asked after `next_frame` has returned None. The room of a large frame ends where the
        frame does: what came after it would have to be moved to the front.
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

    def received(self, count: int) -> bool:
        """So many bytes were put at the beginning of the room; whether a frame is surely short."""
        self._end += count
        return self._end - self._start < self._frame_bytes

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size field, or None until more bytes come."""
        start = self._start
        have = self._end - start
        if have < _SIZE_BYTES:
            self._frame_bytes = 0
            return None
        (size,) = _SIZE.unpack_from(self._view, start)
        if not 0 <= size <= self._limit_bytes:
            raise ProtocolError(f"a frame of {size} bytes; {self._limit_bytes} are allowed")
        frame_bytes = _SIZE_BYTES + size
        if have < frame_bytes:
            self._frame_bytes = frame_bytes
            return None
        self._frame_bytes = 0
        self._start = start + frame_bytes
        return self._view[start + _SIZE_BYTES : start + frame_bytes]

    def leave_behind(self, frame: memoryview) -> bool:
        """Receive into other memory from now on, so that the frame cut last stays as it is.

        False, and nothing happens, where it fills less than half of the memory, which whoever
        keeps the frame would keep whole.
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
        """Give memory back, unless it is in use."""
        if self._end - self._start <= SMALL_BYTES < len(self._view):
            self._move_to(SMALL_BYTES)

    def _make_room(self) -> None:
        """Move what is left to the front; to a larger buffer when this one was full."""
        capacity = len(self._view)
        if capacity < BUSY_BYTES:
            self._move_to(BUSY_BYTES)
        elif self._end - self._start == capacity:
            # Whole steps, so that frames of nearly one size do not each make it grow a little.
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
