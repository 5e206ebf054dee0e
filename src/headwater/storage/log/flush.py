"""Making a log durable, off the loop, and knowing how far it is: the recovery point.

Everything below the recovery point is on disk: content, indexes, leader epochs, producers' state.
That is why one job syncs all of them, and why jobs run one at a time: a second one could write
newer epochs first, and then be overwritten by the first.
"""

from collections.abc import Callable

from headwater.common.exceptions import StorageError, TooManyOpenFiles, TooMuchWork
from headwater.storage.io.disk import File, write_atomically
from headwater.storage.io.executor import Executor, InlineExecutor
from headwater.storage.log import leader_epoch_checkpoint
from headwater.storage.log.leader_epoch_checkpoint import LeaderEpochFileCache
from headwater.storage.log.local_log import LocalLog, SyncJob

Waiter = Callable[[StorageError | None], None]
"""Whoever waits for a flush hears of it exactly once: None, or the failure that it met."""


class LogFlusher:
    """The flushes of one log.

    `segments_flushed` hears when the recovery point has left a segment behind, and `failed` of a
    disk that does not sync.
    """

    def __init__(
        self,
        body: LocalLog,
        epochs: LeaderEpochFileCache,
        *,
        executor: Executor,
        recovery_point: int,
        segments_flushed: Callable[[], None],
        failed: Callable[[StorageError], None],
    ) -> None:
        self.recovery_point = recovery_point
        self._body = body
        self._epochs = epochs
        self._executor = executor
        self._segments_flushed = segments_flushed
        self._failed = failed
        self._waiters: list[Waiter] = []
        self._snapshots: list[File] = []
        self._is_running = False
        self._is_wanted = False
        self._end: StorageError | None = None
        self._is_retired = False

    @property
    def is_running(self) -> bool:
        """Whether a job is under way."""
        return self._is_running

    def include(self, snapshot: File) -> None:
        """A file that the next flush syncs and closes."""
        self._snapshots.append(snapshot)
        self._body.names_changed()

    def lower(self, offset: int) -> bool:
        """Vouch for less, because content is about to be cut; whether that changed anything."""
        if offset >= self.recovery_point:
            return False
        self.recovery_point = offset
        return True

    def start(self, then: Waiter | None = None) -> None:
        """Flush what is in the log now. Who comes while a flush runs shares the next one.

        Where there is no descriptor whoever waits is told that it came to nothing, and may ask
        again; without anybody to tell, `TooManyOpenFiles` is raised.
        """
        if self._end is not None:
            if then is not None:
                then(self._end)
        elif self._is_running:
            self._is_wanted = True
            self._waiters += [] if then is None else [then]
        elif then is None:
            self._submit()
        else:
            self._waiters.append(then)
            self._submit_or_tell()

    def stop(self, reason: StorageError) -> None:
        """Start nothing more: the log is gone, or its disk is."""
        self._end = reason
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter(reason)

    def retire(self) -> None:
        """All of the log is durable elsewhere, where it goes on: whoever waits has been served."""
        self._is_retired = True
        self._end = StorageError("the log has left this directory")
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter(None)

    def run_here(self) -> None:
        """Flush on this thread, as the last thing before the log is closed."""
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
        truncations, active = self._body.truncations, self._body.segments.active
        job = self._job()
        waiters, self._waiters = self._waiters, []
        self._is_running, self._is_wanted = True, False

        def done(_: None) -> None:
            job.release()
            self._is_running = False
            # If another sync of the log has failed meanwhile, this one proves nothing: the system
            # tells of pages that it could not write once, and takes them for clean from then on.
            # After a cut the same offsets may hold other bytes, which this job has not seen.
            if self._end is None and truncations == self._body.truncations:
                # A segment that was closed meanwhile got a last index entry, which is not synced.
                rolled = self._body.segments.active is not active
                target = job.up_to_offset
                self._raise(min(active.base_offset, target) if rolled else target)
            if self._end is None and not job.is_all:
                # They wait for the rest as well.
                self._waiters[:0], self._is_wanted = waiters, True
            else:
                for waiter in waiters:
                    waiter(None if self._is_retired else self._end)
            if self._is_wanted and self._end is None and not self._is_running:
                self._submit_or_tell()

        def failed(error: StorageError) -> None:
            job.release()
            self._is_running = False
            if not self._is_retired:
                self._failed(error)
            for waiter in waiters:
                waiter(None if self._is_retired else error)

        try:
            self._executor.submit(job.sync, then=done, otherwise=failed)
        except TooMuchWork:
            # Then whoever fills the log has to wait for the disk, here and now.
            InlineExecutor().submit(job.sync, then=done, otherwise=failed)

    def _raise(self, offset: int) -> None:
        """Vouch for more, if it is more."""
        before = self.recovery_point
        if offset > before:
            self.recovery_point = offset
            segments = self._body.segments
            if segments.index_of(offset) > segments.index_of(before):
                self._segments_flushed()

    def _submit_or_tell(self) -> None:
        """For those who wait. Nobody knows when a next flush would come that they could share."""
        try:
            self._submit()
        except TooManyOpenFiles as error:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter(StorageError(f"not flushed: {error}"))

    def _job(self) -> SyncJob:
        """What to do off the loop, and what to let go of afterwards."""
        content = self._body.sync_job(self.recovery_point)
        disk, folder = self._body.home.disk, self._body.home.folder
        snapshots, self._snapshots = self._snapshots, []
        epochs = self._epochs.encode() if self._epochs.unsaved else None
        self._epochs.unsaved = False

        def job() -> None:
            for snapshot in snapshots:
                snapshot.sync()
            # By its path, so not for a log that is gone: a namesake may have its folder by now.
            if epochs is not None and self._end is None:
                write_atomically(disk, folder / leader_epoch_checkpoint.FILE_NAME, epochs)
            content.sync()

        def release() -> None:
            content.release()
            for snapshot in snapshots:
                snapshot.close()

        return content._replace(sync=job, release=release)
