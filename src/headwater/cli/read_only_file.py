"""Files opened for reading only, for tools that look at what may belong to a running broker."""

import os
from pathlib import Path
from types import TracebackType
from typing import Self


class ReadOnlyFile:
    """The reading half of the disk port on the real file system; raises `OSError`."""

    def __init__(self, path: Path) -> None:
        # Not blocking: a tool that is pointed at a pipe should refuse it, not hang.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def read(self, length: int, position: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
