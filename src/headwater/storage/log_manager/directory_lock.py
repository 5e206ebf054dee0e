"""The `.lock` file of a log directory, which allows one process at a time.

Note: there are two locks. `flock` exists on every system and also refuses a second open in the same
process. Kafka on the JVM takes a record lock (POSIX), which `flock` does not see; where Linux has
record locks that belong to the open file, the lock takes one of those too, so that Kafka and
Headwater exclude each other. A plain record lock would not do: closing any descriptor of the file
in this process would release it.

The kernel releases both when the process ends. The file stays, as Kafka's does.
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
    """Holds the directory lock from construction until `release`."""

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
        """Release the lock; no error if already released."""
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
