"""Send queue of a connection: buffers and file ranges, in order.

Consecutive buffers are sent with one `sendmsg`, a file range with `sendfile`.

Invariant: a file range holds its file open, and the queue owns it from `put` on. It is released
exactly once, when its last byte is sent or when `drop` empties the queue.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Protocol, cast

from headwater.common.exceptions import ConnectionLost
from headwater.network.transport_layer import TransportLayer
from headwater.records.batch_header import Buffer

# Far below the system's limit of 1,024; more would not make a call cheaper.
_BUFFERS_AT_ONCE = 128
# A broker's large buffers are reads from disk for lagging consumers. Each byte is copied while the
# loop waits; lagging consumers can wait for the next iteration, consumers at the end of a log
# cannot.
_MEMORY_AT_ONCE_BYTES = 262_144
_SMALL_BYTES = 4_096


class SendableFileRange(Protocol):
    """Bytes `position` to `position + length` of an open file."""

    @property
    def position(self) -> int: ...

    @property
    def length(self) -> int: ...

    def fileno(self) -> int: ...

    def release(self) -> None:
        """Release the file; called once."""


Part = Buffer | SendableFileRange


class SendQueue:
    """Queues parts and sends as much as the channel takes."""

    __slots__ = ("_at_once_bytes", "_parts", "_range_count", "_sent_of_first", "size_bytes")

    def __init__(self, memory_at_once_bytes: int = _MEMORY_AT_ONCE_BYTES) -> None:
        """`memory_at_once_bytes` limits the buffers (not files) sent in one call."""
        self._at_once_bytes = memory_at_once_bytes
        self._parts: deque[Part] = deque()
        # Without ranges the type of each part need not be checked, which is expensive for small
        # responses.
        self._range_count = 0
        self._sent_of_first = 0
        self.size_bytes = 0

    def put(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if isinstance(part, bytes):
                size = len(part)
            else:
                size = size_of(part)
                if not size:
                    release([part])
                elif not isinstance(part, Buffer):
                    self._range_count += 1
            if size:
                self.size_bytes += size
                self._parts.append(part)

    def send(self, channel: TransportLayer, limit_bytes: int) -> int:
        """Send until the channel is full, the queue empty or the limit reached.

        Returns the bytes sent.
        """
        if len(self._parts) == 1 and self.size_bytes <= _SMALL_BYTES <= limit_bytes:
            first = self._parts[0]
            if isinstance(first, bytes) and not self._sent_of_first:
                return self._send_only(first, channel)
        total = 0
        while self._parts and total < limit_bytes:
            is_memory = isinstance(self._parts[0], Buffer)
            limit = limit_bytes - total
            if is_memory and limit > self._at_once_bytes:
                limit = self._at_once_bytes
            offered, sent = self._send_first(channel, limit)
            if sent:
                total += sent
                self.size_bytes -= sent
                if self.size_bytes or self._range_count:
                    self._forget_sent(sent)
                else:
                    self._parts.clear()
                    self._sent_of_first = 0
            # A channel that took less than it was offered is full; trying again would waste a call.
            if sent is None or sent < offered or (sent == self._at_once_bytes and is_memory):
                break
        return total

    def _send_only(self, part: bytes, channel: TransportLayer) -> int:
        """Send a single small buffer: the common case."""
        sent = channel.send((part,), more=False) or 0
        self.size_bytes -= sent
        if self.size_bytes:
            self._sent_of_first = sent
        else:
            self._parts.clear()
        return sent

    def drop(self) -> None:
        """Empty the queue and release all file ranges."""
        parts = list(self._parts)
        self._parts.clear()
        self._sent_of_first = self.size_bytes = self._range_count = 0
        release(parts)

    def _send_first(self, channel: TransportLayer, limit_bytes: int) -> tuple[int, int | None]:
        """Send the first range or run of buffers; return bytes offered and sent."""
        first = self._parts[0]
        if not isinstance(first, Buffer):
            return self._send_range(first, channel, limit_bytes)
        run = self._first_buffers()
        if self._sent_of_first:
            run[0] = memoryview(first)[self._sent_of_first :]
        offered = sum(map(len, run))
        if offered > limit_bytes:
            run, offered = _cut(run, limit_bytes)
        # The following data may share a packet with the end of this.
        return offered, channel.send(run, more=offered < self.size_bytes)

    def _first_buffers(self) -> list[Buffer]:
        """Return the buffers before the first range, up to the limit of one call."""
        front = islice(self._parts, _BUFFERS_AT_ONCE)
        if not self._range_count:
            return cast("list[Buffer]", list(front))
        run: list[Buffer] = []
        for part in front:
            if not isinstance(part, Buffer):
                break
            run.append(part)
        return run

    def _send_range(
        self, part: SendableFileRange, channel: TransportLayer, limit_bytes: int
    ) -> tuple[int, int | None]:
        done = self._sent_of_first
        offered = min(part.length - done, limit_bytes)
        sent = channel.send_file(part.fileno(), part.position + done, offered)
        if sent == 0:
            raise ConnectionLost(
                f"file ended {part.length - done} bytes before the end of the range"
            )
        return offered, sent

    def _forget_sent(self, sent: int) -> None:
        sent += self._sent_of_first
        while self._parts:
            first = self._parts[0]
            size = size_of(first)
            if sent < size:
                break
            sent -= size
            self._parts.popleft()
            if not isinstance(first, Buffer):
                self._range_count -= 1
                first.release()
        self._sent_of_first = sent


def size_of(part: Part) -> int:
    return len(part) if isinstance(part, Buffer) else part.length


def release(parts: Iterable[Part]) -> None:
    """Release parts that will not be sent."""
    for part in parts:
        if not isinstance(part, Buffer):
            part.release()


def _cut(run: list[Buffer], limit_bytes: int) -> tuple[list[Buffer], int]:
    """Return the part of the run that fits within the limit."""
    kept: list[Buffer] = []
    left = limit_bytes
    for buffer in run:
        kept.append(buffer if len(buffer) <= left else memoryview(buffer)[:left])
        left -= len(kept[-1])
        if not left:
            break
    return kept, limit_bytes - left
