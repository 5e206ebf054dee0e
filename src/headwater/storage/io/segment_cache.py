"""Cache of cold segment bytes on a faster disk (`headwater.cache.dir`).

`cache_table` decides what is kept; this module moves the bytes. A range that the cache has is read
by an executor job, which brings it into the page cache and finds its last batch, and is then sent
from the cache's file with `sendfile`. Afterwards its pages are dropped, so that they do not
displace the pages that tailing consumers need. What consumers read from the log's disk is written
to the cache after it was delivered.

The log is complete without the cache. Files of an earlier process are removed at start and never
read, so a crash cannot leave anything wrong behind. A checksum, made of the bytes that the log's
disk returned, is compared when a piece is read for the first time.

Note: any failure of the cache directory drops everything, is logged once, and makes all reads go to
the log's disk. From time to time the cache tries to begin again, empty.

Only the event loop's thread may call this module. `writer` must run its jobs one after another:
files are removed before the space is used again.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Final, Protocol

from crc32c import crc32c

from headwater.common.exceptions import QueueFull, StorageError, TooManyOpenFiles
from headwater.records.batch_header import BatchHeader, Buffer
from headwater.records.kernel import last_header
from headwater.storage.io.cache_table import CacheTable, Extent, Piece, Segment
from headwater.storage.io.disk import Disk, File
from headwater.storage.io.executor import Executor
from headwater.storage.io.file_range import FileRange

_log = logging.getLogger(__name__)

SUFFIX: Final = ".cached"
RETRY_MS: Final = 300_000
_UNWRITTEN_BYTES: Final = 32 << 20
"""Delivered bytes that wait in memory for the cache's disk; further ones are not kept."""

_PROBE_BYTES: Final = 4096

LastBatch = tuple[int, BatchHeader]
"""Position in a range, and header, of the last batch that begins in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLimits:
    """Size of the cache, and the read from disk with which bytes are admitted."""

    size_bytes: int
    min_reads: int


class DropPages(Protocol):
    """Drop a range of a file from the page cache."""

    def __call__(self, file: File, length: int, position: int) -> None: ...


class CachedRange:
    """Range in a file of the cache, for `sendfile`; held until it is released."""

    __slots__ = ("_file", "_release", "last_batch", "length", "position")

    def __init__(
        self,
        file: File,
        *,
        position: int,
        length: int,
        last_batch: LastBatch | None,
        release: Callable[[], None],
    ) -> None:
        self._file = file
        self._release = release
        self.position = position
        self.length = length
        self.last_batch = last_batch

    def fileno(self) -> int:
        """Return the descriptor, valid until the range is released."""
        return self._file.fileno()

    def read(self) -> bytes:
        """Return the bytes, for tests; the broker sends without reading."""
        return self._file.read(self.length, self.position)

    def release(self) -> None:
        self._release()


class SegmentCache:
    """Serves ranges of segments from a faster disk, and keeps what is read again."""

    def __init__(
        self,
        disk: Disk,
        directory: PurePath,
        *,
        limits: CacheLimits,
        reader: Executor,
        writer: Executor,
        drop_pages: DropPages,
        steady_ms: Callable[[], int],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._limits = limits
        self._reader = reader
        self._writer = writer
        self._drop_pages = drop_pages
        self._steady_ms = steady_ms
        self._table = CacheTable(limits.size_bytes, min_reads=limits.min_reads)
        # Opened by the writer's job, closed by it when nothing holds the extent any more.
        self._files: dict[int, File] = {}
        self._unwritten_bytes = 0
        self._retry_at_ms: int | None = None
        self._is_starting = False
        self.is_available = False
        self.has_failed = False
        self.hit_bytes = 0
        self.miss_bytes = 0

    @property
    def used_bytes(self) -> int:
        return self._table.used_bytes

    @property
    def eviction_count(self) -> int:
        return self._table.eviction_count

    def start(self) -> None:
        """Remove what an earlier process has left, then begin."""
        self._is_starting = True

        def then(usable_bytes: int) -> None:
            self._is_starting = False
            self._table.limit_bytes = min(self._limits.size_bytes, usable_bytes)
            self.is_available, self.has_failed = True, False
            _log.info(
                "Cache directory ready: directory=%s bytes=%d",
                self._directory,
                self._table.limit_bytes,
            )

        def on_error(error: StorageError) -> None:
            self._is_starting = False
            self._fail(error)

        try:
            self._writer.submit(self._empty_directory, then=then, on_error=on_error)
        except QueueFull:
            self._is_starting = False

    def read(
        self,
        range: FileRange,  # noqa: A002, Kafka's word
        generation: int,
        deliver: Callable[[CachedRange], None],
        otherwise: Callable[[], None],
    ) -> bool:
        """Return whether the cache has the range; then call one function, later.

        `otherwise` is called if the cache cannot be read.
        """
        start, end = range.position, range.position + range.length
        found = self._table.find(Segment(range.file, generation), start, end)
        if found is None:
            self.miss_bytes += range.length
            return False
        extent, pieces = found
        unverified = [piece for piece in pieces if not piece.is_verified]
        file = self._files[extent.number]
        extent.holds += 1

        def then(last_batch: LastBatch | None) -> None:
            for piece in unverified:
                piece.is_verified = True
            self.hit_bytes += range.length
            position = start - extent.start
            deliver(
                CachedRange(
                    file,
                    position=position,
                    length=range.length,
                    last_batch=last_batch,
                    release=partial(self._sent, extent, file, range.length, position),
                )
            )

        def on_error(error: StorageError) -> None:
            self.miss_bytes += range.length
            self._fail(error)
            self._release(extent)
            otherwise()

        job = partial(_load, file, extent.start, start, end, unverified)
        try:
            self._reader.submit(job, then=then, on_error=on_error)
        except QueueFull:
            self._release(extent)
            return False
        return True

    def keep(
        self,
        range: FileRange,  # noqa: A002, Kafka's word
        generation: int,
        content: Buffer,
        *,
        readers: int,
    ) -> None:
        """Keep what consumers have read from the log's disk, if it is worth its space."""
        if not self.is_available:
            self._retry()
            return
        size = len(content)
        if range.file.is_forgotten or not size:
            return
        if self._unwritten_bytes + size > _UNWRITTEN_BYTES:
            return
        range.file.on_forget = self._forget
        admitted = self._table.admit(
            Segment(range.file, generation),
            range.position,
            range.position + size,
            readers=readers,
        )
        self._remove_dropped()
        if admitted is None:
            return
        extent, pieces = admitted
        extent.holds += 1
        self._unwritten_bytes += size

        def then(checksums: list[int]) -> None:
            self._unwritten_bytes -= size
            if checksums:
                for piece, checksum in zip(pieces, checksums, strict=True):
                    piece.checksum = checksum
            else:
                self._table.not_written(extent, pieces)
            self._release(extent)

        def on_error(error: StorageError) -> None:
            self._unwritten_bytes -= size
            self._fail(error)
            self._release(extent)

        memory, base = memoryview(content), range.position
        parts = [(piece.start, memory[piece.start - base : piece.end - base]) for piece in pieces]
        try:
            self._writer.submit(partial(self._write, extent, parts), then=then, on_error=on_error)
        except QueueFull:
            then([])

    def close(self) -> None:
        """Close all files; the executors have ended."""
        self.is_available = False
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _sent(self, extent: Extent, file: File, length: int, position: int) -> None:
        """Drop the pages of a sent range, unless other consumers read its extent."""
        if extent.holds > 1 or extent.is_dropped:
            self._release(extent)
            return

        def then(_: object) -> None:
            self._release(extent)

        try:
            self._reader.submit(
                partial(self._drop_pages, file, length, position), then=then, on_error=then
            )
        except QueueFull:
            self._release(extent)

    def _release(self, extent: Extent) -> None:
        extent.holds -= 1
        if extent.is_dropped and not extent.holds:
            self._remove_dropped()

    def _forget(self, file: object) -> None:
        self._table.forget(file)
        self._remove_dropped()

    def _remove_dropped(self) -> None:
        for extent in self._table.take_dropped():
            try:
                self._writer.submit(
                    partial(self._remove, extent.number), then=_ignore, on_error=self._fail
                )
            except QueueFull:
                # The broker stops, and the next start removes the file.
                return

    def _fail(self, error: StorageError) -> None:
        """Serve all reads from the log's disk, until a later attempt to begin again."""
        self.is_available = False
        self._retry_at_ms = self._steady_ms() + RETRY_MS
        if not self.has_failed:
            self.has_failed = True
            _log.warning(
                "Cache directory failed; consumers are served from the log: directory=%s error=%s",
                self._directory,
                error,
            )
        self._table.drop_all()
        self._remove_dropped()

    def _retry(self) -> None:
        at_ms = self._retry_at_ms
        if at_ms is not None and not self._is_starting and self._steady_ms() >= at_ms:
            self._retry_at_ms = None
            self.start()

    # In the writer.

    def _empty_directory(self) -> int:
        """Remove all files of the cache, write one; return the space for new ones.

        Note: the parent must exist. While the faster disk is not mounted, it is missing, and a new
        one would be on another disk.
        """
        self._disk.volume(self._directory.parent)
        self._disk.make_directory(self._directory)
        for name in self._disk.names(self._directory):
            if name.endswith(SUFFIX):
                self._disk.remove(self._directory / name)
        probe = self._path(0)
        file = self._disk.open(probe, create=True)
        try:
            file.write([bytes(_PROBE_BYTES)], 0)
            file.sync()
        finally:
            file.close()
            self._disk.remove(probe)
        return self._disk.volume(self._directory).usable_bytes

    def _write(self, extent: Extent, parts: list[tuple[int, memoryview]]) -> list[int]:
        """Write pieces; return their checksums, none without a free descriptor."""
        file = self._files.get(extent.number)
        if file is None:
            try:
                path = self._path(extent.number)
                file = self._disk.open(path, create=True, is_kept=True)
            except TooManyOpenFiles:
                return []
            self._files[extent.number] = file
        for start, content in parts:
            file.write([content], start - extent.start)
        # Only what is on the disk can be dropped from the page cache, and only a sync reports that
        # the disk is full or broken.
        file.sync()
        for start, content in parts:
            self._drop_pages(file, len(content), start - extent.start)
        return [crc32c(content) for _, content in parts]

    def _remove(self, number: int) -> None:
        file = self._files.pop(number, None)
        if file is not None:
            file.close()
        self._disk.remove(self._path(number))

    def _path(self, number: int) -> PurePath:
        return self._directory / f"{number:010d}{SUFFIX}"


def _load(file: File, base: int, start: int, end: int, unverified: list[Piece]) -> LastBatch | None:
    """Read a range into the page cache, check new pieces, find its last batch."""
    content = _read(file, end - start, start - base)
    for piece in unverified:
        if start <= piece.start and piece.end <= end:
            written: Buffer = memoryview(content)[piece.start - start : piece.end - start]
        else:
            written = _read(file, piece.end - piece.start, piece.start - base)
        if crc32c(written) != piece.checksum:
            raise StorageError(f"bytes {piece.start} to {piece.end} differ from what was written")
    return last_header(content)


def _read(file: File, length: int, position: int) -> bytes:
    content = file.read(length, position)
    if len(content) < length:
        raise StorageError(f"{length - len(content)} bytes at {position} are missing")
    return content


def _ignore(_: object) -> None:
    pass
