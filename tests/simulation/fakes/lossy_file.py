"""A file of the lossy disk: page cache, disk content and pending changes.

Note: a page is not just clean or dirty. After a failed sync a page is *lost*: the cache has new
bytes, the disk has old ones, and no later sync writes it unless it is written to again.
"""

import random
from dataclasses import dataclass, field
from operator import itemgetter

PAGE_BYTES = 4096
SECTOR_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class PageWrite:
    """Bytes written within one page since the last sync."""

    page: int
    start: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Growth:
    """A write moved the end of the file."""

    size: int


@dataclass(frozen=True, slots=True)
class Truncation:
    """The file was truncated, or extended by a hole, to this size."""

    size: int


Change = PageWrite | Growth | Truncation
NumberedChange = tuple[int, PageWrite | Truncation]
"""With its index among the pending changes."""


@dataclass(slots=True, eq=False)
class Inode:
    """One file's content, whatever its names."""

    modified_ms: int
    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    durable_modified_ms: int = 0
    pending: list[Change] = field(default_factory=list)
    lost_pages: dict[int, None] = field(default_factory=dict)
    views: list[bytearray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.durable_modified_ms = self.modified_ms

    def __deepcopy__(self, memo: dict[int, object]) -> "Inode":
        twin = Inode(self.modified_ms, bytearray(self.content), bytearray(self.durable))
        twin.durable_modified_ms = self.durable_modified_ms
        twin.pending = list(self.pending)
        twin.lost_pages = dict(self.lost_pages)
        memo[id(self)] = twin
        return twin

    def write(self, data: bytes, position: int, now_ms: int) -> None:
        if not data:
            return
        self.modified_ms = now_ms
        end = position + len(data)
        if end > len(self.content):
            self.content.extend(bytes(end - len(self.content)))
            self.pending.append(Growth(end))
        self.content[position:end] = data
        while position < end:
            page, start = divmod(position, PAGE_BYTES)
            stop = min(end, (page + 1) * PAGE_BYTES)
            self._dirty(page, start, bytes(self.content[position:stop]))
            position = stop

    def truncate(self, size: int, now_ms: int) -> None:
        if size == len(self.content):
            return
        self.modified_ms = now_ms
        if size < len(self.content):
            assert not any(map(_is_exported, self.views)), "truncated under a live view"
        self.content = _resized(self.content, size)
        self.pending.append(Truncation(size))
        self.lost_pages = {page: None for page in self.lost_pages if page * PAGE_BYTES < size}
        boundary = size // PAGE_BYTES
        if boundary in self.lost_pages:
            # Clearing the rest of the page dirties it, so it will be written after all.
            self._dirty(boundary, 0, _page_of(self.content, boundary))

    def sync(self) -> None:
        """Write every dirty page to the disk; a lost page is not dirty."""
        durable = self._truncated(self.pending)
        for page in self._dirty_pages():
            _put(durable, page, _page_of(self.content, page))
        self.durable = _resized(durable, len(self.content))
        self.pending = []

    def fail_sync(self, rng: random.Random) -> None:
        """Some dirty pages become lost; perhaps the cache drops their new content too."""
        cache_forgets = rng.random() < 0.5
        on_disk = self._truncated(self.pending)
        cache = bytearray(self.content)
        for page in self._dirty_pages():
            if rng.random() < 0.5:
                self.lost_pages[page] = None
                if cache_forgets:
                    _put(cache, page, _page_of(on_disk, page))
        self.content = _resized(cache, len(self.content))
        self.pending = [
            change
            for change in self.pending
            if not (isinstance(change, PageWrite) and change.page in self.lost_pages)
        ]

    def cut(self, rng: random.Random) -> None:
        """Become what the disk may hold after a power cut. See `LossyDisk`."""
        truncations = [
            index for index, change in enumerate(self.pending) if isinstance(change, Truncation)
        ]
        # The truncations before `begin` have happened, those from `end` on have not.
        survivors = rng.randint(0, len(truncations))
        begin = truncations[survivors - 1] + 1 if survivors > 0 else 0
        end = truncations[survivors] if survivors < len(truncations) else len(self.pending)
        image = self._truncated(self.pending[:begin])
        sizes = [change.size for change in self.pending[begin:end] if isinstance(change, Growth)]
        size = rng.choice([len(image), *sizes])
        # Sometimes nearly everything survives and sometimes nearly nothing: both find bugs.
        chance = rng.random()
        for page, changes in self._changes_by_page().items():
            versions = self._versions(page, changes, begin, end, rng)
            _put(image, page, versions[-1] if rng.random() < chance else rng.choice(versions))
        self.content = _resized(image, size)
        self.durable = bytearray(self.content)
        self.modified_ms = rng.choice([self.durable_modified_ms, self.modified_ms])
        self.durable_modified_ms = self.modified_ms
        self.pending = []
        self.lost_pages = {}
        self.views = []

    def view(self) -> memoryview:
        """A copy, tracked: truncating the file while a view exists is an error."""
        self.views = [view for view in self.views if _is_exported(view)]
        self.views.append(bytearray(self.content))
        return memoryview(self.views[-1]).toreadonly()

    def _dirty(self, page: int, start: int, data: bytes) -> None:
        if page in self.lost_pages:
            # The system writes whole pages, so this write also writes the lost bytes around it.
            del self.lost_pages[page]
            start, data = 0, _page_of(self.content, page)
        self.pending.append(PageWrite(page=page, start=start, data=data))

    def _dirty_pages(self) -> list[int]:
        """The pages that a sync would write: written ones, and ones that a truncation cleared."""
        pages: dict[int, None] = {}
        for change in self.pending:
            if isinstance(change, PageWrite):
                pages[change.page] = None
            elif isinstance(change, Truncation) and change.size % PAGE_BYTES:
                pages[change.size // PAGE_BYTES] = None
        return list(pages)

    def _truncated(self, changes: list[Change]) -> bytearray:
        """The disk content after the truncations among these changes."""
        image = bytearray(self.durable)
        for change in changes:
            if isinstance(change, Truncation):
                image = _resized(image, change.size)
        return image

    def _changes_by_page(self) -> dict[int, list[NumberedChange]]:
        """For every dirty page, its writes and all truncations, in order."""
        found: dict[int, list[NumberedChange]] = {page: [] for page in self._dirty_pages()}
        truncations: list[NumberedChange] = []
        for index, change in enumerate(self.pending):
            if isinstance(change, PageWrite):
                found[change.page].append((index, change))
            elif isinstance(change, Truncation):
                truncations.append((index, change))
        for page, changes in found.items():
            found[page] = sorted(changes + truncations, key=itemgetter(0))
        return found

    def _versions(
        self,
        page: int,
        changes: list[NumberedChange],
        begin: int,
        end: int,
        rng: random.Random,
    ) -> list[bytes]:
        """What the page may hold on the disk, oldest first.

        Nothing from before a truncation that survived. After one that did not survive, new bytes
        can only be in a page that the truncation left in the file.
        """
        now = bytearray(_page_of(self.durable, page))
        versions = [bytes(now)]
        for index, change in changes:
            if isinstance(change, PageWrite):
                torn = bytearray(now)
                _put_at(torn, change.start, _first_sectors(change, rng))
                _put_at(now, change.start, change.data)
                versions += [bytes(torn), bytes(now)]
                continue
            kept = change.size - page * PAGE_BYTES
            if index >= end and kept <= 0:
                break
            if kept < PAGE_BYTES:
                del now[max(kept, 0) :]
                versions = [] if index < begin else versions
                versions.append(bytes(now))
        return versions


def _first_sectors(write: PageWrite, rng: random.Random) -> bytes:
    """The part of a write before some sector of the page: a sector is never torn."""
    stop = write.start + len(write.data)
    sector = rng.randint(write.start // SECTOR_BYTES, stop // SECTOR_BYTES)
    return write.data[: max(0, sector * SECTOR_BYTES - write.start)]


def _resized(content: bytearray, size: int) -> bytearray:
    """Truncated or filled with zeros; always a new one."""
    return content[:size] + bytes(max(0, size - len(content)))


def _page_of(content: bytearray, page: int) -> bytes:
    return bytes(content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES])


def _put_at(content: bytearray, position: int, data: bytes) -> None:
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _put(content: bytearray, page: int, data: bytes) -> None:
    """Replace a page; the rest of it is zeros."""
    _put_at(content, page * PAGE_BYTES, data.ljust(PAGE_BYTES, b"\0"))


def _is_exported(buffer: bytearray) -> bool:
    """Return whether a view exists: then its size cannot change."""
    try:
        buffer.append(0)
    except BufferError:
        return True
    buffer.pop()
    return False
