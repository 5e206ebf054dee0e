"""A bounded number of open files and mapped views for an unbounded number of segments.

A segment owns a `CachedFile`, which is a path and, while the cache can afford it, an open file.
Whoever needs the file asks for it again each time: `file()` is good until the next call into the
cache, and only `hold()` keeps the descriptor open for longer, across a sendfile or a job of the
executor. That is what a reader would get wrong: a `File` kept in a variable over other calls may
have been closed, and its descriptor number given to another file.

Which file is closed is decided by second chance (CLOCK), so that a use only sets a flag. Only the
loop's thread may call anything here. A job off the loop works on a held `File`, and the loop
releases the hold when the job's outcome comes back.

When the process has no descriptor left, the cache gives up some of its own and tries again; only
when it has none to give does `TooManyOpenFiles` reach whoever wanted the file.

Closing a written, unsynced file loses nothing: the page cache belongs to the inode, and Linux
reports a failed writeback that nobody has heard of to the first sync through a new descriptor, as
long as the inode has stayed in memory.
"""

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TypeVar

from headwater.common.exceptions import TooManyOpenFiles
from headwater.storage.io.disk import Disk, File

T = TypeVar("T")

# What is given up at once when descriptors run out: one alone would be gone with the next socket.
_GIVEN_UP_AT_ONCE = 32


class CachedFile:
    """One file by path, open or not. `OpenFiles.open` makes it, its owner ends it with `forget`."""

    __slots__ = ("_cache", "_file", "_forgotten", "_holds", "_path", "_used", "_view", "_view_used")

    def __init__(self, cache: "OpenFiles", path: PurePath) -> None:
        self._cache = cache
        self._path = path
        self._file: File | None = None
        self._view: memoryview | None = None
        self._used = False
        self._view_used = False
        self._holds = 0
        self._forgotten = False

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
        """The open file, for use at once: the next call into the cache may close it."""
        self._used = True
        file = self._file
        return self._cache._reopen(self) if file is None else file

    def hold(self) -> File:
        """The open file, kept open until `release`. Holds count."""
        file = self.file()
        self._holds += 1
        return file

    def release(self) -> None:
        """End one hold. On the loop's thread, like everything else here."""
        assert self._holds > 0, f"{self._path} is released more often than held"
        self._holds -= 1
        if self._holds == 0 and self._forgotten:
            self._close()

    @contextmanager
    def held(self) -> Iterator[File]:
        """`hold` and `release` around a block."""
        file = self.hold()
        try:
            yield file
        finally:
            self.release()

    def view(self, at_least_bytes: int = 0) -> memoryview:
        """The contents, mapped; made anew when the mapped part is shorter than asked for.

        Without `at_least_bytes` the view may lack what was written since it was made.
        """
        self._view_used = True
        view = self._view
        if view is None or len(view) < at_least_bytes:
            view = self._cache._map(self)
        return view

    def drop_view(self) -> None:
        """Before truncating: whoever still uses the view gets an error and not a dead process."""
        view = self._view
        if view is not None:
            self._cache._unmap(self)
            view.release()

    def moved_to(self, path: PurePath) -> None:
        """The file has been renamed; an open descriptor follows it by itself."""
        self._path = path

    def forget(self) -> None:
        """Close the file for good, or as soon as the last hold on it ends."""
        if self._view is not None:
            self._cache._unmap(self)
        self._forgotten = True
        if self._holds == 0:
            self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._cache._closed(self)
            file.close()


class OpenFiles:
    """The cache: at most `limit` open files and `view_limit` mapped views (the same by default).

    A mapped view costs a descriptor too, so a process needs the sum of both.

    Held files cannot be closed. When they alone exceed the limit the cache grows past it, counts
    that in `over_limit_count`, and shrinks again as files are opened later.
    """

    def __init__(self, disk: Disk, limit: int, *, view_limit: int | None = None) -> None:
        assert limit > 0
        self._disk = disk
        self._limit = limit
        self._view_limit = limit if view_limit is None else view_limit
        assert self._view_limit > 0
        # The clock's hand stands at the first entry, and an entry with a second chance goes to
        # the end. A plain dict would look for its first entry past all those deleted before it.
        self._open: OrderedDict[CachedFile, None] = OrderedDict()
        self._mapped: OrderedDict[CachedFile, None] = OrderedDict()
        self.over_limit_count = 0
        self.eviction_count = 0

    @property
    def open_count(self) -> int:
        return len(self._open)

    @property
    def view_count(self) -> int:
        return len(self._mapped)

    def open(self, path: PurePath, *, create: bool = False) -> CachedFile:
        """A file of the cache. It is opened at the first use, or at once when it is to be made.

        Later reopening never makes a file: one that vanished is a `StorageError`.
        """
        cached = CachedFile(self, path)
        if create:
            self._make_room()
            file = self._insist(lambda: self._disk.open(path, create=True, is_kept=True))
            self._add(cached, file)
        return cached

    def close(self) -> None:
        """Close every file that is not held; held ones close when they are released."""
        for cached in [*self._open, *self._mapped]:
            cached.forget()

    def _reopen(self, cached: CachedFile) -> File:
        assert not cached._forgotten, f"{cached.path} is used after it was forgotten"
        self._make_room()
        file = self._insist(lambda: self._disk.open(cached.path, is_kept=True))
        self._add(cached, file)
        return file

    def _add(self, cached: CachedFile, file: File) -> None:
        cached._file = file
        # The use that opened it does not count, so that a walk over all files, each used once,
        # drives out none of those that are used again and again.
        cached._used = False
        self._open[cached] = None
        if len(self._open) > self._limit:
            self.over_limit_count += 1

    def _closed(self, cached: CachedFile) -> None:
        del self._open[cached]

    def _make_room(self) -> None:
        self._close_until(self._limit - 1)

    def _insist(self, action: Callable[[], T]) -> T:
        """Do what takes a descriptor, at the cost of others if need be."""
        while True:
            try:
                return action()
            except TooManyOpenFiles:
                before = len(self._open) + len(self._mapped)
                self._close_until(max(0, len(self._open) - _GIVEN_UP_AT_ONCE))
                for cached in list(itertools.islice(self._mapped, _GIVEN_UP_AT_ONCE)):
                    self._unmap(cached)
                if len(self._open) + len(self._mapped) == before:
                    raise

    def _close_until(self, count: int) -> None:
        # Two rounds: the first takes away second chances, so the second finds any free file.
        for _ in range(2 * len(self._open)):
            if len(self._open) <= count:
                return
            cached = next(iter(self._open))
            if cached._holds or cached._used:
                cached._used = False
                self._open.move_to_end(cached)
            else:
                self.eviction_count += 1
                cached._close()

    def _map(self, cached: CachedFile) -> memoryview:
        if cached._view is not None:
            self._unmap(cached)
        while len(self._mapped) >= self._view_limit:
            oldest = next(iter(self._mapped))
            if oldest._view_used:
                oldest._view_used = False
                self._mapped.move_to_end(oldest)
            else:
                # Not released: its user may still read it, and the mapping ends with the last use.
                self._unmap(oldest)
        # The file is asked for each time: making room may have closed it.
        view = cached._view = self._insist(lambda: cached.file().view())
        cached._view_used = False
        self._mapped[cached] = None
        return view

    def _unmap(self, cached: CachedFile) -> None:
        cached._view = None
        del self._mapped[cached]
