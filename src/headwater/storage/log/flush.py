"""Flush a log off the event loop and track its recovery point.

Everything below the recovery point is on disk: records, indexes, leader epochs and producer state.
So one job syncs all of them. Jobs of one log run one at a time: a second one could write newer
epochs first and then be overwritten by the first.
"""

from collections.abc import Callable

from headwater.common.exceptions import QueueFull, StorageError, TooManyOpenFiles
from headwater.storage.io.disk import File, write_atomically
from headwater.storage.io.executor import Executor, InlineExecutor
from headwater.storage.log import leader_epoch_checkpoint
from headwater.storage.log.leader_epoch_checkpoint import LeaderEpochFileCache
from headwater.storage.log.local_log import LocalLog, SyncJob

Waiter = Callable[[StorageError | None], None]
"""Callback of a flush, called exactly once: with None, or with the failure."""


class LogFlusher:
    """Flushes one log.

    `segments_flushed` is called when the recovery point has passed a segment, `failed` when the
    disk does not sync.
    """

    def __init__(
        self,
        local_log: LocalLog,
        epochs: LeaderEpochFileCache,
        *,
        executor: Executor,
        recovery_point: int,
        segments_flushed: Callable[[], None],
        failed: Callable[[StorageError], None],
    ) -> None:
        self.recovery_point = recovery_point
        self._local_log = local_log
        self._epochs = epochs
        self._executor = executor
        self._segments_flushed = segments_flushed
        self._failed = failed
        self._waiters: list[Waiter] = []
        self._snapshots: list[File] = []
        self._is_running = False
        self._is_requested = False
        self._end: StorageError | None = None
        self._is_retired = False

    @property
    def is_running(self) -> bool:
        """Whether a flush job is running."""
        return self._is_running

    def include(self, snapshot: File) -> None:
        """Add a file that the next flush syncs and closes."""
        self._snapshots.append(snapshot)
        self._local_log.names_changed()

    def lower(self, offset: int) -> bool:
        """Lower the recovery point before a truncation; return whether it changed."""
        if offset >= self.recovery_point:
            return False
        self.recovery_point = offset
        return True

    def start(self, then: Waiter | None = None) -> None:
        """Flush everything appended so far. Calls during a flush share the next one.

        If descriptors have run out, the callback gets an error and may retry; without a callback,
        `TooManyOpenFiles` is raised.
        """
        if self._end is not None:
            if then is not None:
                then(self._end)
        elif self._is_running:
            self._is_requested = True
            self._waiters += [] if then is None else [then]
        elif then is None:
            self._submit()
        else:
            self._waiters.append(then)
            self._submit_or_fail_waiters()

    def stop(self, reason: StorageError) -> None:
        """Start no further flushes: the log was deleted or its disk has failed."""
        self._end = reason
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter(reason)

    def retire(self) -> None:
        """Complete all callbacks: the log has moved and is durable elsewhere."""
        self._is_retired = True
        self._end = StorageError("the log has moved to another directory")
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter(None)

    def run_here(self) -> None:
        """Flush on this thread, as the last step before the log is closed."""
        assert not self._is_running, "the executor is drained before logs are closed"
        is_all = False
        while not is_all:
            job = self._job()
            try:
                job.sync()
            finally:
                job.release()
            self.recovery_point, is_all = job.up_to_offset, job.is_all

    def _submit(self) -> None:
        truncations, active = self._local_log.truncations, self._local_log.segments.active
        job = self._job()
        waiters, self._waiters = self._waiters, []
        self._is_running, self._is_requested = True, False

        def done(_: None) -> None:
            job.release()
            self._is_running = False
            # If another sync of this log has failed meanwhile, this one proves nothing: the kernel
            # reports pages that it could not write once and treats them as clean from then on.
            # After a truncation the same offsets may hold other bytes, which this job has not
            # synced.
            if self._end is None and truncations == self._local_log.truncations:
                # A segment sealed meanwhile got a last index entry, which is not synced.
                rolled = self._local_log.segments.active is not active
                target = job.up_to_offset
                self._raise(min(active.base_offset, target) if rolled else target)
            if self._end is None and not job.is_all:
                # The callbacks wait for the remaining segments as well.
                self._waiters[:0], self._is_requested = waiters, True
            else:
                for waiter in waiters:
                    waiter(None if self._is_retired else self._end)
            if self._is_requested and self._end is None and not self._is_running:
                self._submit_or_fail_waiters()

        def failed(error: StorageError) -> None:
            job.release()
            self._is_running = False
            if not self._is_retired:
                self._failed(error)
            for waiter in waiters:
                waiter(None if self._is_retired else error)

        try:
            self._executor.submit(job.sync, then=done, on_error=failed)
        except QueueFull:
            # The executor's queue is full: sync here, so that appends wait for the disk.
            InlineExecutor().submit(job.sync, then=done, on_error=failed)

    def _raise(self, offset: int) -> None:
        """Raise the recovery point; never lowers it."""
        before = self.recovery_point
        if offset > before:
            self.recovery_point = offset
            segments = self._local_log.segments
            if segments.index_of(offset) > segments.index_of(before):
                self._segments_flushed()

    def _submit_or_fail_waiters(self) -> None:
        """Start the next flush, or fail its callbacks, as no other may follow."""
        try:
            self._submit()
        except TooManyOpenFiles as error:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter(StorageError(f"not flushed: {error}"))

    def _job(self) -> SyncJob:
        """Return the job for the executor and the function that releases its files."""
        content = self._local_log.sync_job(self.recovery_point)
        disk, folder = self._local_log.home.disk, self._local_log.home.folder
        snapshots, self._snapshots = self._snapshots, []
        epochs = self._epochs.encode() if self._epochs.unsaved else None
        self._epochs.unsaved = False

        def job() -> None:
            for snapshot in snapshots:
                snapshot.sync()
            # Written by path, so not for a deleted log: a re-created topic may have its directory
            # by now.
            if epochs is not None and self._end is None:
                write_atomically(disk, folder / leader_epoch_checkpoint.FILE_NAME, epochs)
            content.sync()

        def release() -> None:
            content.release()
            for snapshot in snapshots:
                snapshot.close()

        return content._replace(sync=job, release=release)
