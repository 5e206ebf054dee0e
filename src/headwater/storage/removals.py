"""Files that were renamed away and wait to be unlinked.

Unlinking a large file takes a while and readers may still be sending it, so a removed segment is
first renamed to `.deleted`, which takes it out of the log, and goes after `file.delete.delay.ms`.
"""

from collections import deque
from collections.abc import Iterable
from pathlib import PurePath

from headwater.model.elapsed import has_passed


class PendingRemovals:
    """A queue for each delay, so that the earliest is always in front of its own."""

    def __init__(self) -> None:
        self._queues: dict[int, deque[tuple[int, PurePath]]] = {}

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def add(self, paths: Iterable[PurePath], *, now_ms: int, delay_ms: int) -> None:
        queue = self._queues.setdefault(delay_ms, deque())
        queue.extend((now_ms, path) for path in paths)

    def take_due(self, now_ms: int, *, limit: int) -> list[PurePath]:
        """What has waited long enough, at most so many; the rest is due at the next call."""
        due: list[PurePath] = []
        for delay_ms, queue in list(self._queues.items()):
            while queue and len(due) < limit and has_passed(queue[0][0], delay_ms, now_ms):
                due.append(queue.popleft()[1])
            if not queue:
                del self._queues[delay_ms]
        return due

    def take_all(self) -> list[PurePath]:
        """Everything, when the directory is closed or gone."""
        everything = [path for queue in self._queues.values() for _, path in queue]
        self._queues.clear()
        return everything
