"""Frames: an `int32` size, then that many bytes, in both directions.

    buffer = FrameBuffer(limit_bytes=...)
    count = socket.recv_into(buffer.room())
    buffer.received(count)
    while (frame := buffer.next_frame()) is not None:
        ...

A frame is a writable view of the buffer, not a copy, so it is good only until `room` is called
again. Whoever needs it longer calls `give_away` first. The buffer grows with what has arrived,
never with what a size field claims: a peer that announces 100 MiB and sends nothing costs nothing.
"""

from struct import Struct
from typing import Final

from headwater.model.failures import ProtocolError

SIZE_BYTES: Final = 4
_SIZE: Final = Struct(">i")
_read_size = _SIZE.unpack_from

_SMALLEST_BYTES: Final = 64 * 1024
# Less room than this is not worth a system call.
_LEAST_ROOM_BYTES: Final = 8 * 1024


class FrameBuffer:
    """What one connection has received and not yet handled."""

    __slots__ = ("_end", "_start", "_view", "limit_bytes")

    def __init__(self, *, limit_bytes: int) -> None:
        # socket.request.max.bytes, or less until a peer has authenticated.
        self.limit_bytes = limit_bytes
        self._view = memoryview(bytearray(_SMALLEST_BYTES))
        self._start = 0
        self._end = 0

    @property
    def unread_bytes(self) -> int:
        return self._end - self._start

    @property
    def capacity_bytes(self) -> int:
        return len(self._view)

    def room(self) -> memoryview:
        """Where the next bytes go; never empty. Ends the life of all frames handed out."""
        if self._start == self._end:
            self._start = self._end = 0
        elif len(self._view) - self._end < _LEAST_ROOM_BYTES:
            self._make_room()
        return self._view[self._end :]

    def received(self, count: int) -> None:
        """That many bytes were put where `room` said."""
        self._end += count
        assert self._end <= len(self._view)

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size, or None if it has not arrived.

        Frames before a bad one are handed out before the bad one raises.
        """
        begin = self._start + SIZE_BYTES
        if begin > self._end:
            return None
        (size,) = _read_size(self._view, self._start)
        if size < 0 or size > self.limit_bytes:
            raise ProtocolError(f"a frame of {size} bytes; the limit is {self.limit_bytes}")
        end = begin + size
        if end > self._end:
            return None
        self._start = end
        return self._view[begin:end]

    def give_away(self) -> None:
        """Leaves the memory to the frames handed out, which stay good, and goes on with new one."""
        self._move_to(bytearray(_SMALLEST_BYTES + self.unread_bytes))

    def shrink(self) -> None:
        """Back to a small buffer. For idle connections: a busy one would only grow again."""
        if len(self._view) > _SMALLEST_BYTES:
            self.give_away()

    def _make_room(self) -> None:
        """To the front if that frees half of the memory, else to twice the memory."""
        unread_bytes = self._end - self._start
        if 2 * unread_bytes <= len(self._view):
            self._view[:unread_bytes] = self._view[self._start : self._end]
            self._start, self._end = 0, unread_bytes
        else:
            self._move_to(bytearray(2 * len(self._view)))

    def _move_to(self, memory: bytearray) -> None:
        unread = self._view[self._start : self._end]
        memory[: len(unread)] = unread
        self._view = memoryview(memory)
        self._start, self._end = 0, len(unread)
