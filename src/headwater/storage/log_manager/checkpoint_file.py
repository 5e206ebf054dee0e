"""OffsetCheckpointFile: one checkpoint of a log directory, in memory and on disk.

It holds one offset per partition and can be written in two ways. `save` is for offsets that must be
on disk before something else happens, and returns when they are. `save_later` is for offsets that
only save the next start some work: a job writes and syncs a temporary file, which the event loop
then renames.

Note: the file of a job is discarded if `save` ran meanwhile. `save` may have lowered an offset,
which the job's older content would raise again. An older file that comes back after a power cut is
not a danger: code that lowers an offset waits until the directory is synced too.
"""

from collections.abc import Callable
from pathlib import PurePath

from headwater.common.exceptions import QueueFull, StorageError
from headwater.common.ids import TopicPartition
from headwater.storage.io.disk import Disk, write_aside
from headwater.storage.io.executor import Executor
from headwater.storage.log_manager import checkpoints

# Not the temporary name that `save` uses: both may be written at the same time.
_LATER = ".later"

Offsets = dict[TopicPartition, int]


class CheckpointFile:
    """Offsets of one checkpoint; callers change `offsets` and decide when to save."""

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
        """Whether a background save is running."""
        return self._is_saving

    def load(self) -> None:
        """Read the file; empty if it does not exist. May raise `CorruptFile`."""
        self.offsets = checkpoints.load_offsets(self._disk, self.path)

    def forget(self, partitions: list[TopicPartition]) -> bool:
        """Remove some partitions, in memory only; return whether any was present."""
        known = [partition for partition in partitions if partition in self.offsets]
        for partition in known:
            del self.offsets[partition]
        return bool(known)

    def save(self) -> None:
        """Replace the file; durable on return."""
        self._saves += 1
        checkpoints.save_offsets(self._disk, self.path, self.offsets)

    def save_later(self) -> bool:
        """Replace the file in the background; False if a job is still running."""
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
                lambda: write_aside(self._disk, beside, content), then=written, on_error=failed
            )
        except QueueFull:
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
