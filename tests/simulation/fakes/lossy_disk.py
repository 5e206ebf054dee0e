"""A disk in memory that loses unsynced data in every plausible way.

It implements the same port as the real disk. `power_cut` leaves what a journaling file system (ext4
with data=ordered, XFS) may show after a power cut, and in doubt the worst of it:

- **Pages.** Of every 4 KiB page, any of its unsynced versions survives, each page by itself; and
  of the version that was being written perhaps only the first sectors (512 bytes).
- **Size.** Any size that the file had since its last sync, whichever pages survived; holes read
  as zeros. Truncations happen in order: once one survived, bytes from before it are gone, so
  older contents never come back behind a newer end.
- **Names.** A directory's unsynced creations, renames and removals survive as a prefix of their
  order, each directory by itself. A rename is atomic; one between two directories happens in both
  or in neither. Syncing a file does not sync its name: without the name its contents are lost.
- **What was synced stays.** File contents after `File.sync`, names after `sync_directory`.

A failed sync is worse than it looks, as on Linux: pages that could not be written count as clean
afterwards, so the next sync succeeds and they are still lost; perhaps reads return their old
contents already. A program that continues after a failed sync loses data here.

`process_crash` is kill -9: everything written is still in the page cache, perhaps with the first
half of one write, and nothing of it is more durable than before.

Note: the disk is changed in place, and every file that was open before a crash is dead. Random
choices are drawn in an order that depends on the operations only.
"""

import copy
import random
from collections.abc import Callable, Sequence
from pathlib import PurePath

from headwater.common.exceptions import StorageError, TooManyOpenFiles
from headwater.records.batch_header import Buffer
from headwater.storage.io.disk import FileStatus, Volume
from tests.simulation.fakes.lossy_directory import Directory, NameJournal, NameOperation
from tests.simulation.fakes.lossy_file import Inode

NO_SPACE = "No space left on device"


class PowerCut(BaseException):
    """The simulated process ends here. No `except` of the code under test may catch it."""


class LossyDisk:
    """The disk. `rng` decides what a crash leaves; `now_ms` stamps modification times."""

    def __init__(self, rng: random.Random, *, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._rng = rng
        self._now_ms = now_ms
        self._root = Directory()
        self._journal = NameJournal()
        self._life = 0
        self._down = False
        self._free_bytes: int | None = None
        self._failures: list[tuple[str, str]] = []
        self._broken: dict[PurePath, None] = {}
        self._crash_at_step: int | None = None
        self.step_count = 0
        # What is reserved beyond the end of files, by path; it takes no space here.
        self.preallocated: dict[PurePath, int] = {}
        # Of files and directories, over all lives of the process.
        self.sync_count = 0
        # While set, no further file or view can be opened.
        self.is_out_of_descriptors = False
        self.on_step: Callable[[], None] | None = None

    # Faults.

    def power_cut(self) -> "LossyDisk":
        """Lose unsynced data and restart with every open file dead."""
        self._journal.cut(self._rng)
        for inode in self._root.inodes_left_after_cut():
            inode.cut(self._rng)
        return self._restart()

    def process_crash(self) -> "LossyDisk":
        """The process died, not the machine: only open files and views are lost."""
        for inode in self._root.inodes():
            inode.views = []
        return self._restart()

    def copy(self, rng: random.Random) -> "LossyDisk":
        """The same disk with another random source, to see several outcomes of one history."""
        twin = LossyDisk(rng, now_ms=self._now_ms)
        twin._root, twin._journal = copy.deepcopy((self._root, self._journal))
        twin._free_bytes = self._free_bytes
        return twin

    def crash_at_step(self, step: int | None) -> None:
        """Raise `PowerCut` instead of this step; steps count from 1 since the last crash."""
        self._crash_at_step = step

    def fail_next_sync(self, pattern: str = "*") -> None:
        """Fail the next sync of a matching file or directory; its dirty pages may be lost."""
        self._failures.append(("sync", pattern))

    def fail_next_read(self, pattern: str = "*") -> None:
        self._failures.append(("read", pattern))

    def fail_next_write(self, pattern: str = "*") -> None:
        """Fail the next write to a matching file after some of its bytes."""
        self._failures.append(("write", pattern))

    def break_under(self, path: PurePath) -> None:
        """Nothing below it can be read, written or synced, until `repair`."""
        self._broken[path] = None

    def is_broken(self, path: PurePath) -> bool:
        return path in self._broken

    def repair(self, path: PurePath) -> None:
        """Undo `break_under`."""
        self._broken.pop(path, None)

    def fill(self, free_bytes: int = 0) -> None:
        """Leave this many free bytes; a larger write writes what fits and fails."""
        self._free_bytes = free_bytes

    def make_room(self) -> None:
        """Undo `fill`."""
        self._free_bytes = None

    # `Disk`.

    def open(self, path: PurePath, *, create: bool = False, is_kept: bool = False) -> "LossyFile":
        self._must_be_up()
        if is_kept:
            self._keep_or_fail(path)
        parent = self._directory(path.parent)
        node = parent.entries.get(path.name)
        if node is None and create:
            self._step()
            node = Inode(self._now_ms())
            self._change(NameOperation([(parent, path.name, node)]))
        if not isinstance(node, Inode):
            raise StorageError(f"cannot open {path}: {_what_is_wrong(node)}")
        return LossyFile(self, node, path)

    def status(self, path: PurePath) -> FileStatus | None:
        self._must_be_up()
        try:
            node = self._find(path)
        except StorageError:
            return None
        if not isinstance(node, Inode):
            return None
        return FileStatus(size=len(node.content), modified_ms=node.modified_ms)

    def names(self, directory: PurePath) -> list[str]:
        self._must_be_up()
        node = self._find(directory)
        if isinstance(node, Inode):
            raise StorageError(f"cannot list {directory}: Not a directory")
        return [] if node is None else sorted(node.entries)

    def make_directory(self, path: PurePath) -> None:
        self._must_be_up()
        here = self._root
        for name in _names_of(path):
            node = here.entries.get(name)
            if isinstance(node, Inode):
                raise StorageError(f"cannot make directory {path}: File exists")
            if node is None:
                self._step()
                node = Directory()
                self._change(NameOperation([(here, name, node)]))
            here = node

    def rename(self, source: PurePath, target: PurePath) -> None:
        self._must_be_up()
        old_parent, new_parent = self._directory(source.parent), self._directory(target.parent)
        node = old_parent.entries.get(source.name)
        if node is None:
            raise StorageError(f"cannot rename {source}: No such file or directory")
        replaced = new_parent.entries.get(target.name)
        if replaced is node:
            return
        if isinstance(node, Directory) and node.holds(new_parent):
            raise StorageError(f"cannot rename {source}: Invalid argument")
        if replaced is not None and type(replaced) is not type(node):
            raise StorageError(f"cannot rename {source}: the target is of another kind")
        if isinstance(replaced, Directory) and replaced.entries:
            raise StorageError(f"cannot rename {source}: Directory not empty")
        self._step()
        self._gain_space(replaced)
        self._change(
            NameOperation([(old_parent, source.name, None), (new_parent, target.name, node)])
        )

    def remove(self, path: PurePath) -> None:
        self._must_be_up()
        node = self._find(path)
        if isinstance(node, Directory):
            raise StorageError(f"cannot remove {path}: Is a directory")
        if node is not None:
            self._unlink(self._directory(path.parent), path.name)

    def remove_tree(self, path: PurePath) -> None:
        self._must_be_up()
        node = self._find(path)
        if isinstance(node, Inode):
            raise StorageError(f"cannot remove {path}: Not a directory")
        if node is not None:
            self._empty(node)
            self._unlink(self._directory(path.parent), path.name)

    def sync_directory(self, path: PurePath) -> None:
        self._must_be_up()
        directory = self._directory(path)
        self._step()
        self.sync_count += 1
        self._fail_if_told("sync", path)
        self._journal.sync(directory)

    def set_modified(self, path: PurePath, modified_ms: int) -> None:
        self._must_be_up()
        node = self._find(path)
        if not isinstance(node, Inode):
            raise StorageError(f"cannot set the time of {path}: {_what_is_wrong(node)}")
        self._step()
        node.modified_ms = modified_ms

    def volume(self, path: PurePath) -> Volume:
        self._directory(path)
        usable_bytes = 1 << 40 if self._free_bytes is None else self._free_bytes
        return Volume(total_bytes=1 << 41, usable_bytes=usable_bytes)

    # Shared by the parts of the disk.

    def _restart(self) -> "LossyDisk":
        self._life += 1
        self._down = False
        self._crash_at_step = None
        self.step_count = 0
        self._failures.clear()
        return self

    def _must_be_up(self) -> None:
        if self._down:
            # A `finally` of the code under test: the process is dead and can do nothing more.
            raise PowerCut

    def _step(self) -> None:
        """Called before every change. After a crash here the change does not happen."""
        self._must_be_up()
        self.step_count += 1
        try:
            if self.step_count == self._crash_at_step:
                raise PowerCut
            if self.on_step is not None:
                self.on_step()
        except PowerCut:
            self._down = True
            raise

    def _change(self, operation: NameOperation) -> None:
        self._journal.add(operation)

    def _unlink(self, parent: Directory, name: str) -> None:
        self._step()
        self._gain_space(parent.entries[name])
        self._change(NameOperation([(parent, name, None)]))

    def _empty(self, directory: Directory) -> None:
        for name in sorted(directory.entries):
            node = directory.entries[name]
            if isinstance(node, Directory):
                self._empty(node)
            self._unlink(directory, name)

    def _gain_space(self, node: Inode | Directory | None) -> None:
        if self._free_bytes is not None and isinstance(node, Inode):
            self._free_bytes += len(node.content)

    def _take_space(self, wanted: int) -> bool:
        """Return whether the file may grow by this much (or shrink, if negative)."""
        if self._free_bytes is not None:
            if wanted > self._free_bytes:
                return False
            self._free_bytes -= wanted
        return True

    def _fail_if_told(self, operation: str, path: PurePath) -> None:
        if self._is_told_to_fail(operation, path):
            raise StorageError(f"cannot {operation} {path}: Input/output error")

    def _keep_or_fail(self, path: PurePath) -> None:
        if self.is_out_of_descriptors:
            raise TooManyOpenFiles(f"cannot open {path}: Too many open files")

    def _is_told_to_fail(self, operation: str, path: PurePath) -> bool:
        for index, (kind, pattern) in enumerate(self._failures):
            if kind == operation and path.match(pattern):
                del self._failures[index]
                return True
        return any(path.is_relative_to(each) for each in self._broken)

    def _find(self, path: PurePath) -> Inode | Directory | None:
        here: Inode | Directory | None = self._root
        for name in _names_of(path):
            if isinstance(here, Inode):
                raise StorageError(f"cannot reach {path}: Not a directory")
            here = here.entries.get(name) if here is not None else None
        return here

    def _directory(self, path: PurePath) -> Directory:
        node = self._find(path)
        if not isinstance(node, Directory):
            raise StorageError(f"cannot use {path}: {_what_is_wrong(node)}")
        return node


class LossyFile:
    """An open file of the lossy disk; dead after a crash."""

    __slots__ = ("_disk", "_inode", "_is_open", "_life", "_path")

    def __init__(self, disk: LossyDisk, inode: Inode, path: PurePath) -> None:
        self._disk = disk
        self._inode = inode
        self._path = path
        self._life = disk._life
        self._is_open = True

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        self._must_be_alive()
        disk, inode = self._disk, self._inode
        data = b"".join(buffers)
        disk._step()
        fits = len(data)
        if not disk._take_space(max(0, position + fits - len(inode.content))):
            free = disk._free_bytes or 0
            fits = max(0, min(fits, len(inode.content) + free - position))
            disk._take_space(max(0, position + fits - len(inode.content)))
        fails = disk._is_told_to_fail("write", self._path)
        # The second step is inside the write, so that a crash can leave its start.
        first = disk._rng.randint(0, fits)
        inode.write(data[:first], position, disk._now_ms())
        if fails:
            raise StorageError(f"cannot write {self._path}: Input/output error")
        disk._step()
        inode.write(data[first:fits], position + first, disk._now_ms())
        if fits < len(data):
            raise StorageError(f"cannot write {self._path}: {NO_SPACE}")

    def read(self, length: int, position: int) -> bytes:
        self._must_be_alive()
        self._disk._fail_if_told("read", self._path)
        return bytes(self._inode.content[position : position + length])

    def size(self) -> int:
        self._must_be_alive()
        return len(self._inode.content)

    def truncate(self, size: int) -> None:
        self._must_be_alive()
        self._disk._step()
        self._disk.preallocated.pop(self._path, None)
        # A longer file needs no space: the addition is a hole.
        self._disk._take_space(min(0, size - len(self._inode.content)))
        self._inode.truncate(size, self._disk._now_ms())

    def preallocate(self, size: int) -> None:
        self._must_be_alive()
        self._disk.preallocated[self._path] = size

    def sync(self) -> None:
        self._must_be_alive()
        self._disk._step()
        self._disk.sync_count += 1
        if self._disk._is_told_to_fail("sync", self._path):
            self._inode.fail_sync(self._disk._rng)
            raise StorageError(f"cannot sync {self._path}: Input/output error")
        self._inode.sync()

    def view(self) -> memoryview:
        self._must_be_alive()
        self._disk._keep_or_fail(self._path)
        self._disk._fail_if_told("read", self._path)
        return self._inode.view()

    def fileno(self) -> int:
        raise StorageError(f"{self._path} is in memory and has no descriptor")

    def close(self) -> None:
        self._is_open = False

    def _must_be_alive(self) -> None:
        self._disk._must_be_up()
        assert self._is_open, f"{self._path} is used after it was closed"
        assert self._life == self._disk._life, f"{self._path} was opened before a crash"


def _names_of(path: PurePath) -> list[str]:
    return [name for name in path.parts if name != path.anchor]


def _what_is_wrong(node: Inode | Directory | None) -> str:
    if node is None:
        return "No such file or directory"
    return "Is a directory" if isinstance(node, Directory) else "Not a directory"
