"""A scripted event loop and transport layer, for tests of one connection.

Note: the loop is level-triggered like the real one. As long as a channel has something to read, or
room to write, its callback fires in each turn.
"""

from collections import deque
from collections.abc import Callable, Sequence

from headwater.common.exceptions import ConnectionLost
from headwater.records.batch_header import Buffer

Callback = Callable[[], None]


class ScriptedTransportLayer:
    """Incoming bytes arrive in the given pieces; outgoing ones go as far as allowed.

    `takes` bytes can be sent before the peer reads again; None means any number.
    """

    def __init__(self, fd: int = 3) -> None:
        self._fd = fd
        self._pieces: deque[bytes] = deque()
        self._has_ended = False
        self.takes: int | None = None
        self.sent = bytearray()
        self.is_broken = False
        self.is_closed = False
        self.has_said_all = False
        self.largest_room = 0

    def feed(self, *pieces: bytes) -> None:
        self._pieces.extend(piece for piece in pieces if piece)

    def end(self) -> None:
        self._has_ended = True

    @property
    def is_readable(self) -> bool:
        return bool(self._pieces) or self._has_ended or self.is_broken

    @property
    def is_writable(self) -> bool:
        return self.takes is None or self.takes > 0 or self.is_broken

    @property
    def unread_bytes(self) -> int:
        return sum(map(len, self._pieces))

    def fileno(self) -> int:
        return self._fd

    def receive_into(self, room: memoryview) -> int | None:
        assert not self.is_closed
        assert len(room) > 0
        self.largest_room = max(self.largest_room, len(room))
        if self.is_broken:
            raise ConnectionLost("reset by the test")
        if not self._pieces:
            return 0 if self._has_ended else None
        piece = self._pieces.popleft()
        taken = piece[: len(room)]
        if len(piece) > len(taken):
            self._pieces.appendleft(piece[len(taken) :])
        room[: len(taken)] = taken
        return len(taken)

    def send(self, buffers: Sequence[Buffer], *, more: bool) -> int | None:
        del more
        return self._take(b"".join(buffers))

    def send_file(self, descriptor: int, position: int, length: int) -> int | None:
        """Descriptors are the bytes' own numbers: file 7 consists of the byte 7."""
        del position
        return self._take(bytes([descriptor]) * length)

    def end_sending(self) -> None:
        assert not self.is_closed
        if self.is_broken:
            raise ConnectionLost("broken pipe by the test")
        self.has_said_all = True

    def close(self) -> None:
        assert not self.is_closed, "closed twice"
        self.is_closed = True

    def _take(self, content: bytes) -> int | None:
        assert not self.is_closed
        if self.is_broken:
            raise ConnectionLost("broken pipe by the test")
        if self.takes is None:
            self.sent += content
            return len(content)
        if not self.takes:
            return None
        taken = content[: self.takes]
        self.takes -= len(taken)
        self.sent += taken
        return len(taken)


class SteppedLoop:
    """Runs callbacks when the test says so."""

    def __init__(self) -> None:
        self._channels: dict[int, ScriptedTransportLayer] = {}
        self.readers: dict[int, Callback] = {}
        self.writers: dict[int, Callback] = {}
        self._soon: deque[Callback] = deque()

    def watch(self, channel: ScriptedTransportLayer) -> None:
        self._channels[channel.fileno()] = channel

    def forget(self, fd: int) -> None:
        """A channel is gone."""
        del self._channels[fd]

    def add_reader(self, fd: int, callback: Callback, /) -> None:
        assert not self._channels[fd].is_closed
        self.readers[fd] = callback

    def remove_reader(self, fd: int, /) -> bool:
        assert not self._channels[fd].is_closed
        return self.readers.pop(fd, None) is not None

    def add_writer(self, fd: int, callback: Callback, /) -> None:
        assert not self._channels[fd].is_closed
        self.writers[fd] = callback

    def remove_writer(self, fd: int, /) -> bool:
        assert not self._channels[fd].is_closed
        return self.writers.pop(fd, None) is not None

    def call_soon(self, callback: Callback, /) -> None:
        self._soon.append(callback)

    def turn(self) -> bool:
        """One turn of the loop; False if there was nothing to do."""
        soon = list(self._soon)
        self._soon.clear()
        ready = [
            (watchers, fd)
            for fd, channel in self._channels.items()
            for watchers, is_ready in (
                (self.readers, channel.is_readable),
                (self.writers, channel.is_writable),
            )
            if is_ready and fd in watchers
        ]
        for callback in soon:
            callback()
        for watchers, fd in ready:
            # A callback removed meanwhile is not called, as on the real loop.
            if fd in watchers:
                watchers[fd]()
        return bool(soon or ready)

    def run(self, turns: int = 100_000) -> None:
        """Turn until nothing is left to do."""
        for _ in range(turns):
            if not self.turn():
                return
        raise AssertionError("the loop never came to rest")
