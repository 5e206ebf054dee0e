"""Cache of open files and mapped views for an unbounded number of segments.

A segment owns a `CachedFile`: a path and, while the cache can afford it, an open file.

Note: ask for the file each time it is needed. `file()` is valid until the next call into the cache;
only `hold()` keeps the descriptor open for longer, across a sendfile or an executor job. A `File`
kept in a variable across other calls may have been closed, and its descriptor number reused for
another file.

Eviction uses second chance (CLOCK), so that a use only sets a flag. Only the event loop's thread
may call this module. An executor job works on a held `File`, and the loop releases the hold when
the job's result comes back.

When the process has no descriptor left, the cache closes some of its own files and retries;
`TooManyOpenFiles` reaches the caller only when there is nothing left to close.

Closing a written, unsynced file loses nothing: the page cache belongs to the inode, and Linux
reports a writeback failure that has not been reported yet to the first sync through a new
descriptor, as long as the inode has stayed in memory.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TypeVar

from headwater.common.exceptions import TooManyOpenFiles
from headwater.storage.io.disk import Disk, File

T = TypeVar("T")

# Number of files closed at once when descriptors run out: a single one would be used up by the next
# socket.
_CLOSED_AT_ONCE = 32


class CachedFile:
    """File by path, open or not; from `OpenFiles.open` until `forget`."""

    __slots__ = (
        "_cache",
        "_file",
        "_forgotten",
        "_holds",
        "_path",
        "_used",
        "_view",
        "_view_used",
        "on_forget",
    )

    def __init__(self, cache: OpenFiles, path: PurePath) -> None:
        self._cache = cache
        self._path = path
        self._file: File | None = None
        self._view: memoryview | None = None
        self._used = False
        self._view_used = False
        self._holds = 0
        self._forgotten = False
        # Set by the segment cache, if it knows the file.
        self.on_forget: Callable[[CachedFile], None] | None = None

    @property
    def path(self) -> PurePath:
        return self._path

    @property
    def is_held(self) -> bool:
        return self._holds > 0

    @property
    def is_forgotten(self) -> bool:
        return self._forgotten

    def file(self) -> File:
        """Return the open file for immediate use; the next call may close it."""
        self._used = True
        file = self._file
        return self._cache._reopen(self) if file is None else file

    def hold(self) -> File:
        """Return the open file and keep it open until `release`. Holds are counted."""
        file = self.file()
        self._holds += 1
        return file

    def release(self) -> None:
        """Release one hold, on the event loop's thread."""
        assert self._holds > 0, f"{self._path} is released more often than held"
        self._holds -= 1
        if self._holds == 0 and self._forgotten:
            self._close()

    @contextmanager
    def held(self) -> Iterator[File]:
        """Hold the file for the duration of a `with` block."""
        file = self.hold()
        try:
            yield file
        finally:
            self.release()

    def view(self, at_least_bytes: int = 0) -> memoryview:
        """Return the mapped contents; map again if shorter than `at_least_bytes`.

        Without `at_least_bytes` the view may lack what was written since it was mapped.
        """
        self._view_used = True
        view = self._view
        if view is None or len(view) < at_least_bytes:
            view = self._cache._map(self)
        return view

    def drop_view(self) -> None:
        """Release the view before truncating; using it later raises."""
        view = self._view
        if view is not None:
            self._cache._unmap(self)
            view.release()

    def moved_to(self, path: PurePath) -> None:
        """Record that the file has been renamed; an open descriptor stays valid."""
        self._path = path

    def forget(self) -> None:
        """Close the file for good, or when the last hold on it is released."""
        if self._view is not None:
            self._cache._unmap(self)
        self._forgotten = True
        if self._holds == 0:
            self._close()
        if self.on_forget is not None:
            self.on_forget(self)

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._cache._on_closed(self)
            file.close()


class _Descriptors:
    """Open and mapped files, and how many there may be."""

    __slots__ = ("eviction_count", "limit", "mapped", "open", "over_limit_count", "view_limit")

    def __init__(self, limit: int, view_limit: int) -> None:
        assert limit > 0
        assert view_limit > 0
        self.limit = limit
        self.view_limit = view_limit
        # The clock hand is at the first entry; an entry with a second chance moves to the end. A
        # plain dict would scan all deleted entries to find its first one.
        self.open: OrderedDict[CachedFile, None] = OrderedDict()
        self.mapped: OrderedDict[CachedFile, None] = OrderedDict()
        self.over_limit_count = 0
        self.eviction_count = 0


class OpenFiles:
    """At most `limit` open files and `view_limit` mapped views.

    A mapped view uses a descriptor too, so a process needs the sum of both.

    Held files cannot be closed. If they alone exceed the limit, the cache grows past it, counts
    that in `over_limit_count`, and shrinks again as files are opened later.
    """

    def __init__(self, disk: Disk, limit: int, *, view_limit: int | None = None) -> None:
        self._disk = disk
        self._descriptors = _Descriptors(limit, limit if view_limit is None else view_limit)

    @property
    def open_count(self) -> int:
        return len(self._descriptors.open)

    @property
    def view_count(self) -> int:
        return len(self._descriptors.mapped)

    @property
    def over_limit_count(self) -> int:
        return self._descriptors.over_limit_count

    @property
    def eviction_count(self) -> int:
        return self._descriptors.eviction_count

    def open(self, path: PurePath, *, create: bool = False) -> CachedFile:
        """Return a cached file, opened at the first use, or immediately if it is created.

        Later reopening never creates a file: a missing one is a `StorageError`.
        """
        cached = CachedFile(self, path)
        if create:
            self._make_room()
            file = self._with_descriptor(lambda: self._disk.open(path, create=True, is_kept=True))
            self._add(cached, file)
        return cached

    def close(self) -> None:
        """Close every file that is not held; held ones close when they are released."""
        for cached in [*self._descriptors.open, *self._descriptors.mapped]:
            cached.forget()

    def close_unheld(self) -> None:
        """Close every file that is not held, and drop every view, for now."""
        for cached in list(self._descriptors.mapped):
            self._unmap(cached)
        self._close_until(0)

    def merge_into(self, other: OpenFiles) -> None:
        """Become a second name of another cache, with its files and limits.

        A thread that loads a log needs a cache of its own, and the loaded files keep referring
        to it.
        """
        assert not self._descriptors.open, "`close_unheld` comes first"
        self._descriptors = other._descriptors

    def _reopen(self, cached: CachedFile) -> File:
        assert not cached._forgotten, f"{cached.path} is used after it was forgotten"
        self._make_room()
        file = self._with_descriptor(lambda: self._disk.open(cached.path, is_kept=True))
        self._add(cached, file)
        return file

    def _add(self, cached: CachedFile, file: File) -> None:
        cached._file = file
        # The use that opened the file does not count, so that a walk over all files evicts none of
        # the frequently used ones.
        cached._used = False
        self._descriptors.open[cached] = None
        if len(self._descriptors.open) > self._descriptors.limit:
            self._descriptors.over_limit_count += 1

    def _on_closed(self, cached: CachedFile) -> None:
        del self._descriptors.open[cached]

    def _make_room(self) -> None:
        self._close_until(self._descriptors.limit - 1)

    def _with_descriptor(self, action: Callable[[], T]) -> T:
        """Run an action that needs a descriptor; close other files if necessary."""
        while True:
            try:
                return action()
            except TooManyOpenFiles:
                before = len(self._descriptors.open) + len(self._descriptors.mapped)
                self._close_until(max(0, len(self._descriptors.open) - _CLOSED_AT_ONCE))
                for cached in list(itertools.islice(self._descriptors.mapped, _CLOSED_AT_ONCE)):
                    self._unmap(cached)
                if len(self._descriptors.open) + len(self._descriptors.mapped) == before:
                    raise

    def _close_until(self, count: int) -> None:
        # Two rounds: the first clears the second-chance flags, so the second finds any free file.
        for _ in range(2 * len(self._descriptors.open)):
            if len(self._descriptors.open) <= count:
                return
            cached = next(iter(self._descriptors.open))
            if cached._holds or cached._used:
                cached._used = False
                self._descriptors.open.move_to_end(cached)
            else:
                self._descriptors.eviction_count += 1
                cached._close()

    def _map(self, cached: CachedFile) -> memoryview:
        if cached._view is not None:
            self._unmap(cached)
        while len(self._descriptors.mapped) >= self._descriptors.view_limit:
            oldest = next(iter(self._descriptors.mapped))
            if oldest._view_used:
                oldest._view_used = False
                self._descriptors.mapped.move_to_end(oldest)
            else:
                # Not released: its user may still read it, and the mapping ends with the last use.
                self._unmap(oldest)
        # Call `file()` on each attempt: making room may have closed it.
        view = cached._view = self._with_descriptor(lambda: cached.file().view())
        cached._view_used = False
        self._descriptors.mapped[cached] = None
        return view

    def _unmap(self, cached: CachedFile) -> None:
        cached._view = None
        del self._descriptors.mapped[cached]
