"""The disk as a port: the few file operations that a log needs.

What a reader would get wrong: nothing here is durable by itself. Bytes survive a power cut after
`File.sync`; a new name, a rename or a removal survives after `Disk.sync_directory` of its folder.
Every operation raises `StorageError` when the system fails, and never `OSError`.

A process that has no descriptor left is no failed disk: short work finds a spare one, and whoever
wants to keep a file open gets `TooManyOpenFiles`, and can close another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from headwater.records.batch_header import Buffer

TEMPORARY = ".tmp"
"""What a small file is called while it is written anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """What a directory knows of a file."""

    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A file system: its size, and what of it a process without privileges may still use."""

    total_bytes: int
    usable_bytes: int


class File(Protocol):
    """An open file. Positions are explicit, there is no cursor."""

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all the bytes of all buffers there, in order, or raise."""

    def read(self, length: int, position: int) -> bytes:
        """Up to `length` bytes; fewer only where the file ends."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def preallocate(self, size: int) -> None:
        """Reserve room up to a size; contents and size of the file stay as they are.

        Advice only: where it cannot be followed, nothing happens. `truncate` gives back the rest.
        """

    def sync(self) -> None:
        """Return when the contents would survive a power cut. Safe to call off the loop."""

    def view(self) -> memoryview:
        """The present contents, mapped read-only; bytes written later need a new view.

        Truncating a file under a live view is the caller's mistake: release it first. A view is
        kept, so this may raise `TooManyOpenFiles`.
        """

    def fileno(self) -> int:
        """The descriptor, for sendfile and residency probes; a fake disk has none and raises."""

    def close(self) -> None: ...


class Disk(Protocol):
    """One machine's file system, by path."""

    def open(self, path: PurePath, *, create: bool = False, is_kept: bool = False) -> File:
        """Open for reading and writing. A missing file is made only when `create` is set.

        A file that is to be kept open may raise `TooManyOpenFiles`; the others are closed soon.
        """

    def status(self, path: PurePath) -> FileStatus | None:
        """Size and age of a file, or None where there is no such file; a directory is none."""

    def names(self, directory: PurePath) -> list[str]:
        """The names in a directory, sorted; an absent directory has none."""

    def make_directory(self, path: PurePath) -> None:
        """Make a directory and its parents; fine when it exists."""

    def rename(self, source: PurePath, target: PurePath) -> None:
        """Atomic, replaces the target; durable after `sync_directory` of both parents."""

    def remove(self, path: PurePath) -> None:
        """Remove a file; fine when it is gone already."""

    def remove_tree(self, path: PurePath) -> None:
        """Remove a directory and all in it; fine when it is gone already."""

    def sync_directory(self, path: PurePath) -> None: ...

    def set_modified(self, path: PurePath, modified_ms: int) -> None: ...

    def volume(self, path: PurePath) -> Volume:
        """The file system that a directory lies on."""


def make_directory_durably(disk: Disk, path: PurePath) -> None:
    """Make a directory that survives a power cut, with the parents that had to be made for it.

    One that is not empty was made durable before anything was put into it, so an old one costs
    nothing.
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
    """Write what is to replace a small file; where it is, synced, to be renamed by the caller."""
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
    """The content of a small file, or None where there is none."""
    if disk.status(path) is None:
        return None
    file = disk.open(path)
    try:
        return file.read(file.size(), 0)
    finally:
        file.close()
