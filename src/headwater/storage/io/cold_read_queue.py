"""Queue of the cold reads of one log directory. Pure.

Each directory has a queue of its own, because it usually is a disk of its own: a slow one must not
hold up reads of the others. Consumers take turns, so that a fetch of hundreds of cold partitions
does not delay a consumer that needs one range. Consumers that want the same range share one read.

Note: a read that has begun is shared only as long as its log has not been truncated since. The
bytes that a truncated log gets at the same positions are others.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from headwater.common.exceptions import HeadwaterError
from headwater.records.batch_header import Buffer
from headwater.storage.io.file_range import FileRange
from headwater.storage.io.open_files import CachedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdReadWaiter:
    """One consumer's request for a range, or for the beginning of a range."""

    length: int
    deliver: Callable[[Buffer], None]
    fail: Callable[[HeadwaterError], None]


@dataclass(slots=True, kw_only=True, eq=False)
class QueuedRead:
    """Cold read, queued or in progress, with all who wait for it."""

    range: FileRange
    generation: int | None
    waiters: list[ColdReadWaiter] = field(default_factory=list)

    @property
    def length(self) -> int:
        return self.range.length


_Key = tuple[CachedFile, int, int]


class ColdReadQueue:
    """Queued reads of one log directory, and the ones in progress.

    At most `limit_reads` reads of `limit_bytes` in total are in progress, except that a larger one
    runs alone.
    """

    def __init__(self, limit_reads: int, limit_bytes: int) -> None:
        self.limit_reads = limit_reads
        self.limit_bytes = limit_bytes
        self.reads_under_way = 0
        self.bytes_under_way = 0
        self.waiting_count = 0
        self.merged_count = 0
        # The consumer whose turn is next comes first.
        self._queued: OrderedDict[Hashable, deque[QueuedRead]] = OrderedDict()
        self._shared: dict[_Key, QueuedRead] = {}

    def add(
        self,
        range: FileRange,  # noqa: A002, Kafka's word
        waiter: ColdReadWaiter,
        *,
        consumer: Hashable,
        generation: int | None,
    ) -> None:
        """Queue a read, or join one of the same range; with a generation it may be joined.

        The generation is the log's count of truncations.
        """
        if generation is not None:
            key = (range.file, range.position, generation)
            known = self._shared.get(key)
            if known is not None and known.length >= range.length:
                known.waiters.append(waiter)
                self.merged_count += 1
                return
        read = QueuedRead(range=range, generation=generation, waiters=[waiter])
        if generation is not None:
            self._shared[key] = read
        self._queued.setdefault(consumer, deque()).append(read)
        self.waiting_count += 1

    def take(self) -> QueuedRead | None:
        """Return the next read if it may begin now; `ended` must follow.

        A read that does not fit is not overtaken, or a large one could wait forever.
        """
        if not self._queued:
            return None
        consumer, queue = next(iter(self._queued.items()))
        if not self._fits(queue[0].length):
            return None
        read = queue.popleft()
        del self._queued[consumer]
        if queue:
            self._queued[consumer] = queue
        self.waiting_count -= 1
        self.reads_under_way += 1
        self.bytes_under_way += read.length
        return read

    def ended(self, read: QueuedRead) -> None:
        """A read was delivered, has failed or could not begin: it is joined no more."""
        self.reads_under_way -= 1
        self.bytes_under_way -= read.length
        if read.generation is not None:
            key = (read.range.file, read.range.position, read.generation)
            # A longer read of the same range may have taken its place.
            if self._shared.get(key) is read:
                del self._shared[key]

    def _fits(self, length: int) -> bool:
        if self.reads_under_way == 0:
            return True
        total = self.bytes_under_way + length
        return total <= self.limit_bytes and self.reads_under_way < self.limit_reads
