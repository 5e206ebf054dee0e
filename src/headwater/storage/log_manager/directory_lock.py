"""The `.lock` file of a log directory: one process at a time.

What a reader would get wrong: there are two locks. `flock` is the one that every system has and
that also refuses a second opening in the same process. Kafka on the Java machine takes a record
lock, which `flock` does not see; where Linux offers record locks that belong to the open file, we
take one of those too, so that Kafka and Headwater keep each other out. The plain kind of record
lock would not do: any close of the file in this process would lose it.

The system frees both when the process ends, however it ends. The file stays, as Kafka's does.
"""

import errno
import fcntl
import os
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

from headwater.common.exceptions import DirectoryInUse, StorageError

LOCK_FILE_NAME = ".lock"

# struct flock of 64-bit Linux: type, whence, start, length (0: all of it), process.
_RECORD_LOCK = struct.Struct("@hhqqi0q")


class DirectoryLock:
    """Holds the directory from its making until `release`."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK_FILE_NAME
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageError(f"cannot open {self._path}: {error.strerror}") from error
        try:
            _lock(self._descriptor)
        except OSError as error:
            os.close(self._descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise DirectoryInUse(
                    f"{directory} is in use: another broker holds {self._path}"
                ) from error
            raise StorageError(f"cannot lock {self._path}: {error.strerror}") from error

    def release(self) -> None:
        """Let others in; fine when it was done before."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def _lock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if hasattr(fcntl, "F_OFD_SETLK"):
        whole_file = _RECORD_LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, whole_file)
