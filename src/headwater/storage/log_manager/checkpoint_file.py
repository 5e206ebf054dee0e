"""One checkpoint of a log directory: an offset for each partition, in memory and in a file.

There are two ways to write it. `save` is for what must be on disk before something else happens,
and returns when it is. `save_later` is for what merely spares the next start some work: a job
writes and syncs a file beside it, and the loop then puts that in its place.

What a reader would get wrong: what a job has written is thrown away when there was a `save`
meanwhile. That one may have lowered an offset, and the job's content, which is older, would raise
it again. An older file that comes back after a power cut is no such danger: whoever lowers an
offset waits until the folder is synced too.
"""

from collections.abc import Callable
from pathlib import PurePath

from headwater.common.exceptions import StorageError, TooMuchWork
from headwater.common.ids import TopicPartition
from headwater.storage.io.disk import Disk, write_aside
from headwater.storage.io.executor import Executor
from headwater.storage.log_manager import checkpoints

# Not the name that `save` writes under: both may be at work at the same time.
_LATER = ".later"

Offsets = dict[TopicPartition, int]


class CheckpointFile:
    """What is known is in `offsets`; whoever changes it also says when to save it."""

    def __init__(
        self,
        disk: Disk,
        path: PurePath,
        *,
        executor: Executor,
        failed: Callable[[StorageError], None],
    ) -> None:
        self.path = path
        self.offsets: Offsets = {}
        self._disk = disk
        self._executor = executor
        self._failed = failed
        self._saves = 0
        self._is_saving = False

    @property
    def is_saving(self) -> bool:
        """Whether a job is under way."""
        return self._is_saving

    def load(self) -> None:
        """Read the file; one that is missing has no offsets. May raise `CorruptFile`."""
        self.offsets = checkpoints.load_offsets(self._disk, self.path)

    def forget(self, partitions: list[TopicPartition]) -> bool:
        """Drop what is known of some partitions, here and not in the file; whether it was any."""
        known = [partition for partition in partitions if partition in self.offsets]
        for partition in known:
            del self.offsets[partition]
        return bool(known)

    def save(self) -> None:
        """Replace the file; durable on return."""
        self._saves += 1
        checkpoints.save_offsets(self._disk, self.path, self.offsets)

    def save_later(self) -> bool:
        """Replace the file in the background; False when that has to wait for another job."""
        if self._is_saving:
            return False
        content, saves = checkpoints.encode_offsets(self.offsets), self._saves
        beside = self.path.with_name(self.path.name + _LATER)

        def written(temporary: PurePath) -> None:
            self._is_saving = False
            self._put_in_place(temporary, is_outdated=saves != self._saves)

        def failed(error: StorageError) -> None:
            self._is_saving = False
            self._failed(error)

        self._is_saving = True
        try:
            self._executor.submit(
                lambda: write_aside(self._disk, beside, content), then=written, otherwise=failed
            )
        except TooMuchWork:
            self._is_saving = False
            return False
        return True

    def _put_in_place(self, temporary: PurePath, *, is_outdated: bool) -> None:
        try:
            if is_outdated:
                self._disk.remove(temporary)
            else:
                self._disk.rename(temporary, self.path)
        except StorageError as error:
            self._failed(error)
