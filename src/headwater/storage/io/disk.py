"""Port for the file operations that a log needs.

Note: nothing here is durable by itself. Bytes survive a power cut after `File.sync`; a new name, a
rename or a removal survives after `Disk.sync_directory` of its directory. Every operation raises
`StorageError` when the operating system fails, and never `OSError`.

Running out of file descriptors is not a disk failure: short operations use a reserved descriptor,
and callers that keep a file open get `TooManyOpenFiles`, so that they can close another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from headwater.records.batch_header import Buffer

TEMPORARY = ".tmp"
"""Suffix of a small file while its replacement is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """Size and modification time of a file."""

    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Size of a file system, and the space that an unprivileged process can still use."""

    total_bytes: int
    usable_bytes: int


class File(Protocol):
    """Open file; positions are explicit, there is no cursor."""

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all bytes of all buffers in order, or raise."""

    def read(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes; fewer only at the end of the file."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def preallocate(self, size: int) -> None:
        """Reserve disk space up to a size; contents and size of the file do not change.

        Advice only: a file system that cannot do it ignores it. `truncate` releases the unused
        space.
        """

    def sync(self) -> None:
        """Return when the contents survive a power cut. Callable on any thread."""

    def view(self) -> memoryview:
        """Map the current contents read-only; bytes written later need a new view.

        Release the view before truncating the file. A view is kept open, so this may raise
        `TooManyOpenFiles`.
        """

    def fileno(self) -> int:
        """Return the descriptor, for sendfile and residency probes; a fake disk raises."""

    def close(self) -> None: ...


class Disk(Protocol):
    """File system of one machine, addressed by path."""

    def open(self, path: PurePath, *, create: bool = False, is_kept: bool = False) -> File:
        """Open for reading and writing; create a missing file only if `create` is set.

        With `is_kept` the file stays open for long and the call may raise `TooManyOpenFiles`.
        """

    def status(self, path: PurePath) -> FileStatus | None:
        """Return size and modification time, or None if there is no regular file."""

    def names(self, directory: PurePath) -> list[str]:
        """Return the sorted names in a directory; empty if the directory does not exist."""

    def make_directory(self, path: PurePath) -> None:
        """Create a directory and its parents; no error if it exists."""

    def rename(self, source: PurePath, target: PurePath) -> None:
        """Rename atomically; durable after `sync_directory` of both parents."""

    def remove(self, path: PurePath) -> None:
        """Remove a file; no error if it does not exist."""

    def remove_tree(self, path: PurePath) -> None:
        """Remove a directory tree; no error if it does not exist."""

    def sync_directory(self, path: PurePath) -> None: ...

    def set_modified(self, path: PurePath, modified_ms: int) -> None: ...

    def volume(self, path: PurePath) -> Volume:
        """Return the file system that holds a directory."""


def make_directory_durably(disk: Disk, path: PurePath) -> None:
    """Create a directory, and missing parents, so that they survive a power cut.

    A directory that is not empty was made durable before anything was put into it, so existing
    directories cost nothing.
    """
    fresh = [path, *path.parents]
    old = next((index for index, each in enumerate(fresh) if disk.names(each)), len(fresh))
    disk.make_directory(path)
    for each in fresh[:old]:
        disk.sync_directory(each.parent)


def write_atomically(disk: Disk, path: PurePath, content: bytes) -> None:
    """Replace a small file so that a crash leaves either the old or the new content."""
    disk.rename(write_aside(disk, path, content), path)
    disk.sync_directory(path.parent)


def write_aside(disk: Disk, path: PurePath, content: bytes) -> PurePath:
    """Write and sync a temporary file; return its path for the caller to rename."""
    temporary = path.with_name(path.name + TEMPORARY)
    disk.remove(temporary)
    file = disk.open(temporary, create=True)
    try:
        file.write([content], 0)
        file.sync()
    finally:
        file.close()
    return temporary


def read_whole(disk: Disk, path: PurePath) -> bytes | None:
    """Return the content of a small file, or None if it does not exist."""
    if disk.status(path) is None:
        return None
    file = disk.open(path)
    try:
        return file.read(file.size(), 0)
    finally:
        file.close()
