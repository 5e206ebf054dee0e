"""Standard input that can be ended from inside the process.

Note: the protocol's server reads standard input in a thread that cannot be interrupted, so that a
signal would not end it. It reads from a pipe instead, into which another thread copies standard
input. Closing that pipe looks like the end of the client's input, and all ends in order.
"""

import os
import sys
import threading
from io import TextIOWrapper
from types import TracebackType
from typing import Final, Self

_STANDARD_INPUT: Final = 0
_CHUNK_BYTES: Final = 65_536


class ClosableInput:
    """A context manager that replaces `sys.stdin`; `close` ends it, from any thread."""

    def __init__(self) -> None:
        reader, self._writer = os.pipe()
        self._pipe = TextIOWrapper(os.fdopen(reader, "rb"), encoding="utf-8")
        self._before = sys.stdin
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> Self:
        sys.stdin = self._pipe
        # A daemon: it may wait for input that never comes when the process ends.
        threading.Thread(target=self._copy, name="headwater-mcp-input", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sys.stdin = self._before
        self.close()

    def close(self) -> None:
        """End the input. Blocks while a full pipe is being read."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._writer)

    def _copy(self) -> None:
        # `os.read`, because a buffered reader would hold a lock that Python needs to exit.
        while chunk := self._read():
            with self._lock:
                if self._is_closed:
                    return
                if not _write_all(self._writer, chunk):
                    break
        self.close()

    def _read(self) -> bytes:
        try:
            return os.read(_STANDARD_INPUT, _CHUNK_BYTES)
        except OSError:
            # Standard input is closed, or its terminal is gone.
            return b""


def _write_all(descriptor: int, chunk: bytes) -> bool:
    rest = memoryview(chunk)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except BrokenPipeError:
        # The server has ended.
        return False
    return True
