"""Files and directories that wait for deletion.

Deleting a large file takes a while and readers may still be sending it, so a removed segment is
first renamed to `.deleted`, which takes it out of the log, and deleted after
`file.delete.delay.ms`.
"""

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import PurePath

from headwater.common.elapsed import has_passed
from headwater.common.exceptions import QueueFull, StorageError
from headwater.storage.io.disk import Disk
from headwater.storage.io.executor import Executor

# A job of about a tenth of a second, so that deleting ten thousand topics does not block other
# work.
_FILES_REMOVED_AT_ONCE = 1_000
_TREES_REMOVED_AT_ONCE = 200


class PendingDeletes:
    """Paths queued per delay, so that the earliest is first in its queue."""

    def __init__(self) -> None:
        self._queues: dict[int, deque[tuple[int, PurePath]]] = {}

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def add(self, paths: Iterable[PurePath], *, now_ms: int, delay_ms: int) -> None:
        queue = self._queues.setdefault(delay_ms, deque())
        queue.extend((now_ms, path) for path in paths)

    def take_due(self, now_ms: int, *, limit: int) -> list[PurePath]:
        """Return at most `limit` paths whose delay has passed; the next call returns more."""
        due: list[PurePath] = []
        for delay_ms, queue in list(self._queues.items()):
            while queue and len(due) < limit and has_passed(queue[0][0], delay_ms, now_ms):
                due.append(queue.popleft()[1])
            if not queue:
                del self._queues[delay_ms]
        return due

    def take_all(self) -> list[PurePath]:
        """Return everything, when the directory is closed or offline."""
        everything = [path for queue in self._queues.values() for _, path in queue]
        self._queues.clear()
        return everything


class PendingDirectoryDeletes:
    """Pending deletes of one log directory: segment files and partition directories."""

    def __init__(self, disk: Disk) -> None:
        self.files = PendingDeletes()
        self.trees = PendingDeletes()
        self._disk = disk

    def remove_due(
        self, now_ms: int, executor: Executor, *, failed: Callable[[StorageError], None]
    ) -> None:
        """Delete some of the paths whose delay has passed, off the event loop."""
        files = self.files.take_due(now_ms, limit=_FILES_REMOVED_AT_ONCE)
        trees = self.trees.take_due(now_ms, limit=_TREES_REMOVED_AT_ONCE)
        if not files and not trees:
            return

        def job() -> None:
            for file in files:
                self._disk.remove(file)
            for tree in trees:
                self._disk.remove_tree(tree)

        try:
            executor.submit(job, then=lambda _: None, on_error=failed)
        except QueueFull:
            self.files.add(files, now_ms=now_ms, delay_ms=0)
            self.trees.add(trees, now_ms=now_ms, delay_ms=0)
