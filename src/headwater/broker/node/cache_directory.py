"""The segment cache of one broker, in `headwater.cache.dir`.

The broker starts and runs without it: a directory that cannot be used is logged.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from headwater.common.exceptions import InvalidSetting, StorageError
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.storage.io.cold_read import drop_pages
from headwater.storage.io.disk import Disk
from headwater.storage.io.segment_cache import CacheLimits, SegmentCache
from headwater.storage.io.thread_executor import Post, ThreadExecutor
from headwater.storage.log_manager.directory_lock import DirectoryLock

_log = logging.getLogger(__name__)

_READ_THREADS: Final = 4


def cache_directory(settings: BrokerSettings, log_directories: Sequence[Path]) -> Path | None:
    """Return the directory of this broker's cache, or None without one."""
    if settings.headwater_cache_dir is None:
        return None
    parent = Path(settings.headwater_cache_dir).absolute()
    for each in log_directories:
        if parent.is_relative_to(each.absolute()):
            raise InvalidSetting(
                f"headwater.cache.dir is {parent}, inside the log directory {each}: "
                "choose a directory outside of it, on a faster disk"
            )
    # Several brokers of a machine may share the setting.
    return parent / f"broker-{settings.node_id}"


class NodeCache:
    """The cache with its threads and the lock of its directory."""

    def __init__(
        self,
        settings: BrokerSettings,
        directory: Path,
        *,
        disk: Disk,
        post: Post,
        steady_ms: Callable[[], int],
    ) -> None:
        self._resources = ExitStack()
        self._reader = ThreadExecutor(_READ_THREADS, post, name="headwater-cache-read")
        # One thread: files are removed before their space is used again.
        self._writer = ThreadExecutor(1, post, name="headwater-cache-write")
        self.cache = SegmentCache(
            disk,
            directory,
            limits=CacheLimits(
                size_bytes=settings.headwater_cache_bytes,
                min_reads=settings.headwater_cache_min_reads,
            ),
            reader=self._reader,
            writer=self._writer,
            drop_pages=drop_pages,
            steady_ms=steady_ms,
        )
        try:
            # Raises if it is missing, perhaps because its disk is not mounted.
            disk.volume(directory.parent)
            disk.make_directory(directory)
            self._resources.enter_context(DirectoryLock(directory))
        except StorageError as error:
            _log.warning("Cache directory is not used: directory=%s error=%s", directory, error)
        else:
            self.cache.start()

    @property
    def executors(self) -> Sequence[ThreadExecutor]:
        """Threads to end before `close`."""
        return (self._reader, self._writer)

    def close(self) -> None:
        for executor in self.executors:
            executor.close()
        self.cache.close()
        self._resources.close()
