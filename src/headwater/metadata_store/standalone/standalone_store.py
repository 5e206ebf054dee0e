"""Metadata store of a standalone broker: one file in its data directory.

Changes are durable before they are acknowledged. Writing and syncing is a job on a thread, since a
sync may be slow; changes that arrive meanwhile share the next one. So creating a thousand topics
one by one at the same time costs a few syncs.

When the file has grown to several times its snapshot it is replaced by a new one with an atomic
rename. If there is no space for that, the old file stays in use. Every other disk failure ends this
store: what is on disk is then unknown until the next start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Final, Self, TypeVar

from headwater.common.exceptions import (
    ControllerFenced,
    CorruptFile,
    HeadwaterError,
    QueueFull,
    StorageError,
    WrongLogDirectory,
)
from headwater.common.ids import NodeId
from headwater.metadata.changes import (
    BrokerRegistered,
    ControllerElected,
    KnownToAll,
    MetadataChange,
    apply,
    changes_of,
)
from headwater.metadata.cluster_image import (
    NO_CONTROLLER,
    BrokerRegistration,
    ClusterImage,
    Version,
)
from headwater.metadata.ports.metadata_store import Failed, Registration, StoreListener
from headwater.metadata_store.standalone.standalone_metadata_file import (
    StandaloneMetadataFile,
    StoredChange,
    decode,
    encode_changes,
    encode_snapshot,
)
from headwater.storage.io.disk import TEMPORARY, Disk, File, read_whole, write_atomically
from headwater.storage.io.executor import Executor

T = TypeVar("T")

FILE_NAME: Final = "cluster.facts"

SMALLEST_COMPACTION_BYTES: Final = 1_048_576
GROWTH_BEFORE_COMPACTION: Final = 4


@dataclass(frozen=True, slots=True)
class _Write:
    stored_change: StoredChange
    then: Callable[[Version], None]
    on_error: Failed


class StandaloneStore:
    """`MetadataStore` for one broker. Created by `open`."""

    def __init__(
        self,
        disk: Disk,
        executor: Executor,
        path: PurePath,
        *,
        changes: StandaloneMetadataFile,
        file: File,
        smallest_compaction_bytes: int,
    ) -> None:
        self._disk = disk
        self._executor = executor
        self._path = path
        self._changes = changes
        self._file = file
        self._smallest_compaction_bytes = smallest_compaction_bytes
        self._compaction_bytes = self._when_to_compact()
        self._proposed = changes.image().version
        self._waiting: list[_Write] = []
        self._is_busy = False
        self._failure: HeadwaterError | None = None

    @classmethod
    def open(
        cls,
        disk: Disk,
        executor: Executor,
        directory: PurePath,
        *,
        cluster_id: str,
        first: Sequence[MetadataChange] | None,
        smallest_compaction_bytes: int = SMALLEST_COMPACTION_BYTES,
    ) -> Self:
        """Read the file or create one. Blocks.

        A new file starts with the changes of `first`, all of them or none: a cluster without topics
        would treat existing logs as strays. None means that the file must exist.
        """
        path = directory / FILE_NAME
        disk.remove(path.with_name(path.name + TEMPORARY))
        content = read_whole(disk, path)
        if content is None:
            if first is None:
                raise StorageError(f"{path} is missing; it contains all topics of this broker")
            empty = ClusterImage(cluster_id=cluster_id, is_standalone=True)
            image = apply(empty, first, empty.version)
            content = encode_snapshot(image)
            write_atomically(disk, path, content)
        changes = _decoded(content, path)
        if changes.snapshot.cluster_id != cluster_id:
            raise WrongLogDirectory(
                f"{path} is of cluster {changes.snapshot.cluster_id}, not of {cluster_id}"
            )
        file = disk.open(path)
        if len(content) > changes.end:
            file.truncate(changes.end)
        # Make durable what a process left in the page cache when it died.
        file.sync()
        return cls(
            disk,
            executor,
            path,
            changes=changes,
            file=file,
            smallest_compaction_bytes=smallest_compaction_bytes,
        )

    @staticmethod
    def cluster_id_in(disk: Disk, directory: PurePath) -> str | None:
        """Return the cluster id of the file in a directory, if there is one.

        May raise `CorruptFile`.
        """
        content = read_whole(disk, directory / FILE_NAME)
        path = directory / FILE_NAME
        return None if content is None else _decoded(content, path).snapshot.cluster_id

    @property
    def failure(self) -> HeadwaterError | None:
        """Why no more writes are possible until a restart, or None."""
        return self._failure

    # `MetadataStore`.

    def listen(self, listener: StoreListener) -> None:
        """Nothing to report: only this process writes."""

    def register(
        self, registration: Registration, *, then: Callable[[int], None], on_error: Failed
    ) -> None:
        broker = BrokerRegistration(
            node_id=registration.node_id,
            # The sequence of a version never repeats, as required of a broker epoch.
            epoch=self._proposed.sequence + 1,
            rack=registration.rack,
            endpoints=registration.endpoints,
        )
        self._write(
            [BrokerRegistered(broker)],
            self._next(),
            then=lambda version: then(version.sequence),
            on_error=on_error,
        )

    def become_controller(
        self, node_id: NodeId, *, then: Callable[[Version], None], on_error: Failed
    ) -> None:
        version = self._next()._replace(controller_epoch=self._proposed.controller_epoch + 1)
        self._write([ControllerElected(node_id)], version, then=then, on_error=on_error)

    def resign(self) -> None:
        """Nothing to do: there is no other broker."""

    def read_configs(self, *, then: Callable[[Sequence[MetadataChange]], None]) -> None:
        changes = changes_of(self._changes.image())
        then([change for change in changes if isinstance(change, KnownToAll)])

    def report_failed_directory(self, node_id: NodeId) -> None:
        """Nothing to do: the controller is in the same process."""

    def read(self, *, then: Callable[[ClusterImage], None], on_error: Failed) -> None:
        if self._failure is not None:
            on_error(self._failure)
            return
        self._fold()
        then(self._changes.snapshot)

    def write(
        self,
        changes: Sequence[MetadataChange],
        *,
        fence: Version,
        then: Callable[[Version], None],
        on_error: Failed,
    ) -> None:
        if fence != self._proposed:
            on_error(
                ControllerFenced(f"decided on version {fence}, but the newest is {self._proposed}")
            )
            return
        self._write(changes, self._next(), then=then, on_error=on_error)

    def close(self) -> None:
        self._fail(StorageError(f"{self._path} is closed"))
        if not self._is_busy:
            self._file.close()

    # Implementation.

    def _next(self) -> Version:
        return self._proposed._replace(sequence=self._proposed.sequence + 1)

    def _write(
        self,
        changes: Sequence[MetadataChange],
        version: Version,
        *,
        then: Callable[[Version], None],
        on_error: Failed,
    ) -> None:
        if self._failure is not None:
            on_error(self._failure)
            return
        self._proposed = version
        self._waiting.append(_Write(StoredChange(changes, version), then, on_error))
        self._work()

    def _work(self) -> None:
        """Start the next job unless one is running."""
        if self._is_busy or self._failure is not None:
            return
        if self._changes.end > self._compaction_bytes:
            self._compact()
        elif self._waiting:
            self._append()

    def _append(self) -> None:
        group, self._waiting = self._waiting, []
        stored_changes = [each.stored_change for each in group]
        job = partial(_append_frame, self._file, stored_changes, self._changes.end)
        self._submit(job, group, then=partial(self._appended, group))

    def _appended(self, group: list[_Write], end: int) -> None:
        self._changes.end = end
        self._changes.stored_changes += [each.stored_change for each in group]
        try:
            # Still busy, so that writes of the callbacks share the next job.
            for each in group:
                each.then(each.stored_change.version)
        finally:
            self._end_job()

    def _compact(self) -> None:
        job = partial(_replace_file, self._disk, self._path, replace(self._changes))
        self._submit(job, [], then=self._compacted)

    def _compacted(self, fresh: tuple[StandaloneMetadataFile, File] | None) -> None:
        if fresh is None:
            self._compaction_bytes = 2 * self._changes.end
        else:
            self._file.close()
            self._changes, self._file = fresh
            self._compaction_bytes = self._when_to_compact()
        self._end_job()

    def _end_job(self) -> None:
        """After a successful job: start the next one, or close the file."""
        self._is_busy = False
        if self._failure is not None:
            self._file.close()
        self._work()

    def _submit(
        self, job: Callable[[], T], group: list[_Write], *, then: Callable[[T], None]
    ) -> None:
        self._is_busy = True
        try:
            self._executor.submit(job, then=then, on_error=partial(self._handle_failure, group))
        except QueueFull as error:
            self._is_busy = False
            self._give_up(group, error)

    def _handle_failure(self, group: list[_Write], error: StorageError) -> None:
        self._is_busy = False
        self._failure = self._failure or error
        self._give_up(group, error)
        self._file.close()

    def _fail(self, error: HeadwaterError) -> None:
        self._failure = self._failure or error
        self._give_up([], error)

    def _give_up(self, group: list[_Write], error: HeadwaterError) -> None:
        """Fail the waiting writes; the next version follows the last written one again."""
        pending, self._waiting = group + self._waiting, []
        stored_changes = self._changes.stored_changes
        self._proposed = (
            stored_changes[-1].version if stored_changes else self._changes.snapshot.version
        )
        for each in pending:
            each.on_error(error)

    def _fold(self) -> None:
        changes = self._changes
        changes.snapshot, changes.stored_changes = changes.image(), []

    def _when_to_compact(self) -> int:
        grown = GROWTH_BEFORE_COMPACTION * self._changes.snapshot_bytes
        return max(grown, self._smallest_compaction_bytes)


def _decoded(content: bytes, path: PurePath) -> StandaloneMetadataFile:
    """Read the file without the broker and controller of former sessions."""
    try:
        changes = decode(content, is_standalone=True)
    except CorruptFile as error:
        raise CorruptFile(f"{path}: {error}") from error
    image = replace(changes.image(), brokers={}, controller_id=NO_CONTROLLER)
    return replace(changes, snapshot=image, stored_changes=[])


def _append_frame(file: File, stored_changes: list[StoredChange], position: int) -> int:
    frame = encode_changes(stored_changes)
    file.write([frame], position)
    file.sync()
    return position + len(frame)


def _replace_file(
    disk: Disk, path: PurePath, changes: StandaloneMetadataFile
) -> tuple[StandaloneMetadataFile, File] | None:
    """Replace the file by a new one with the same image; None if there is no space."""
    image = changes.image()
    content = encode_snapshot(image)
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        disk.remove(temporary)
        file = disk.open(temporary, create=True)
        try:
            file.write([content], 0)
            file.sync()
        finally:
            file.close()
    except StorageError:
        return None
    disk.rename(temporary, path)
    disk.sync_directory(path.parent)
    fresh = StandaloneMetadataFile(image, snapshot_bytes=len(content), end=len(content))
    return fresh, disk.open(path)
