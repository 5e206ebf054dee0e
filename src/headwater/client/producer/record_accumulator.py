"""Records that wait to be sent: a queue of batches per partition, in bounded memory.

Pure but for its locks: callers of any thread add records, the sender takes batches. Time comes in
as a parameter. What a reader would get wrong:

- A record goes into an open batch without the lock. That is one step of the compiled kernel, and a
  batch that is closed just then says so; the caller begins the next one under the lock.
- Nobody looks through all partitions. Batches are made in the order of time and linger equally
  long, so one queue of beginnings tells whose time has come; `ready` has the partitions that
  something can be taken from.
"""

import heapq
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import count

from headwater.client.producer.buffer_pool import BufferPool, MemoryClaim
from headwater.client.producer.partition_queues import (
    Append,
    PartitionQueue,
    PlacedBatch,
    TopicQueues,
)
from headwater.client.producer.partitioner import StickyPartition
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.records.batch_header import HEADER_BYTES
from headwater.records.kernel import IS_COMPILED, BatchBuilder

# The varints and the attributes of a record, at most.
_RECORD_OVERHEAD_BYTES = 36
# Even records that compress very well make no batch larger than twenty times its limit.
_LEAST_RATIO = 0.05
# Batches that wait to be sent. Beyond that a caller lets the sender catch up: two threads that
# fight for the interpreter's lock are slower than two that take turns.
BACKLOG_BYTES = 1_048_576


class RecordAccumulator:
    """All that waits. Methods that end in `_locked` are called under `lock`."""

    def __init__(
        self, *, batch_bytes: int, linger_ms: int, memory_bytes: int, is_compressing: bool
    ) -> None:
        self.lock = threading.Lock()
        self._builder_lock = threading.Lock()
        # Waited for by callers who let the sender catch up.
        self.caught_up = threading.Condition(self.lock)
        self.memory = BufferPool(memory_bytes, batch_bytes=batch_bytes)
        self.topics: dict[str, TopicQueues] = {}
        # Partitions that something can be taken from, in the order in which that became so.
        self.ready: dict[PartitionQueue, None] = {}
        self.unsettled: dict[ProducerBatch, None] = {}
        self.backlog_bytes = 0
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._is_compressing = is_compressing
        # Open batches that are not due yet, the oldest first, and when they will be.
        self._lingering: OrderedDict[ProducerBatch, tuple[int, PartitionQueue]] = OrderedDict()
        self._later: list[tuple[int, int, PartitionQueue]] = []
        self._serial = count()
        self.is_flushing = 0

    # Adding records.

    def open_locked(
        self,
        queue: PartitionQueue,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        tail: bytes,
        now_ms: int,
        claim: MemoryClaim | None = None,
    ) -> ProducerBatch | MemoryClaim:
        """Begin a new batch with this record; without memory, a place in line for it.

        Who was in line comes back with what was returned then.
        """
        self.close_locked(queue)
        limit_bytes = self._batch_bytes
        if self._is_compressing:
            limit_bytes = int(limit_bytes / max(queue.topic.ratio, _LEAST_RATIO))
        # A batch for which there could never be room would be waited for in vain.
        limit_bytes = min(limit_bytes, self.memory.total_bytes)
        needed_bytes = max(limit_bytes, batch_bytes_of(key, value, tail))
        builder = BatchBuilder(max(limit_bytes, HEADER_BYTES))
        # Before anything is noted: what is no bytes is refused here.
        builder.append(timestamp, key, value, tail)
        if not self.memory.take(needed_bytes, claim):
            return self._wait_in_line_locked(needed_bytes, claim)
        batch = ProducerBatch(
            queue.name,
            queue.partition,
            builder=builder,
            lock=self.lock,
            created_ms=now_ms,
            reserved_bytes=needed_bytes,
        )
        queue.open = batch
        queue.way_in = (batch, self._way_into(builder))
        self._add_locked(queue, batch)
        if self._linger_ms == 0 or self.is_flushing or self.memory.waiting_count:
            self._make_due_locked(queue, batch)
        else:
            self._lingering[batch] = (now_ms + self._linger_ms, queue)
        return batch

    def _way_into(self, builder: BatchBuilder) -> Append:
        append = builder.append
        if IS_COMPILED:
            # One step under the interpreter's lock, so it needs no other.
            return append

        def append_alone(
            timestamp: int, key: bytes | None, value: bytes | None, tail: bytes
        ) -> int:
            with self._builder_lock:
                return append(timestamp, key, value, tail)

        return append_alone

    def close_locked(self, queue: PartitionQueue) -> None:
        """End the open batch of a partition, if there is one; it can then be taken."""
        batch = queue.open
        if batch is not None:
            self._close_open_locked(queue, batch)
            self.backlog_bytes += batch.size_bytes
            self.ready[queue] = None

    def _close_open_locked(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        queue.open = queue.way_in = None
        self._lingering.pop(batch, None)
        # The pure kernel's appends are under this lock, and none may be half done.
        with self._builder_lock:
            batch.close()

    def put_locked(
        self, batches: Sequence[PlacedBatch], claim: MemoryClaim | None = None
    ) -> MemoryClaim | None:
        """Add whole batches behind all others; without memory for all, a place in line as above."""
        needed_bytes = sum(batch.reserved_bytes for _, batch in batches)
        if not self.memory.take(needed_bytes, claim):
            return self._wait_in_line_locked(needed_bytes, claim)
        for queue, batch in batches:
            self.close_locked(queue)
            self._add_locked(queue, batch)
            self.backlog_bytes += batch.size_bytes
            self.ready[queue] = None
        return None

    def _wait_in_line_locked(self, needed_bytes: int, claim: MemoryClaim | None) -> MemoryClaim:
        # Nothing lingers while somebody waits, or memory would not become free in time.
        self.hurry_locked()
        return self.memory.wait_in_line(needed_bytes, claim)

    @property
    def is_behind(self) -> bool:
        """Whether so much waits to be sent that callers should let the sender catch up."""
        return self.backlog_bytes > BACKLOG_BYTES

    def wait_for_memory(self, claim: MemoryClaim, timeout_s: float) -> bool:
        """Block until a claim is called; whether it was in time."""
        called = threading.Event()
        with self.lock:
            if claim.is_called:
                return True
            claim.on_called = called.set
        return called.wait(timeout_s)

    def wait_for_sender(self, timeout_s: float) -> None:
        """Block until half of the backlog is gone, but not for long: a leader may be away."""
        with self.lock:
            self.caught_up.wait_for(self.is_caught_up, timeout_s)

    def is_caught_up(self) -> bool:
        return self.backlog_bytes <= BACKLOG_BYTES // 2

    def tell_locked(self) -> None:
        """Wake those who let the sender catch up, if it has."""
        if self.is_caught_up():
            self.caught_up.notify_all()

    def _add_locked(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        queue.batches.append(batch)
        self.unsettled[batch] = None

    # Taking batches.

    def collect_locked(self, now_ms: int) -> None:
        """Move to `ready` whatever has lingered or waited for long enough."""
        while (first := next(iter(self._lingering.items()), None)) is not None:
            batch, (due_ms, queue) = first
            if due_ms > now_ms:
                break
            self._make_due_locked(queue, batch)
        while self._later and self._later[0][0] <= now_ms:
            self.ready[heapq.heappop(self._later)[2]] = None

    def next_due_ms(self) -> int | None:
        """When `collect_locked` will find something next."""
        times = []
        if self._lingering:
            times.append(next(iter(self._lingering.values()))[0])
        if self._later:
            times.append(self._later[0][0])
        return min(times, default=None)

    def take_locked(self, queue: PartitionQueue) -> ProducerBatch:
        """The first batch of a partition; it is on its way from now on."""
        batch = queue.batches.popleft()
        # Behind the others, so that no busy partition starves them.
        self.ready.pop(queue, None)
        self.ready[queue] = None
        if queue.open is batch:
            self._close_open_locked(queue, batch)
            sticky = queue.topic.sticky
            if queue.partition == sticky.partition:
                # A batch that went out half full does not end the stay by itself (KIP-794).
                sticky.produced_bytes += batch.size_bytes
        else:
            self.backlog_bytes -= batch.size_bytes
        queue.in_flight_count += 1
        return batch

    def is_sendable_locked(self, queue: PartitionQueue, now_ms: int) -> bool:
        """Whether the first batch of a ready partition may be taken now.

        If not, the partition is no longer ready; what is in its way makes it so again.
        """
        if not queue.batches:
            del self.ready[queue]
            return False
        if queue.open is queue.batches[0] and not queue.open.is_due:
            # It is still among those that linger.
            del self.ready[queue]
            return False
        if queue.not_before_ms > now_ms:
            del self.ready[queue]
            heapq.heappush(self._later, (queue.not_before_ms, next(self._serial), queue))
            return False
        return True

    def return_locked(
        self, queue: PartitionQueue, batch: ProducerBatch, not_before_ms: int
    ) -> None:
        """Put a batch back that is to be sent again: before all that come after it."""
        self._insert_locked(queue, (batch,))
        queue.not_before_ms = max(queue.not_before_ms, not_before_ms)
        self.ready[queue] = None

    def replace_locked(
        self, queue: PartitionQueue, batch: ProducerBatch, parts: Sequence[ProducerBatch]
    ) -> None:
        """Put the parts of a batch, which is not on its way any more, in its place."""
        # They are as old as the batch was, and the oldest must stay first: it expires first.
        self.unsettled = dict.fromkeys(
            each for known in self.unsettled for each in (parts if known is batch else (known,))
        )
        self._insert_locked(queue, parts)
        self.ready[queue] = None

    def _insert_locked(self, queue: PartitionQueue, batches: Sequence[ProducerBatch]) -> None:
        """Put batches that belong together in front of all but those of earlier sequences.

        Others may have come back before them, and only the first of all sequences may leave.
        """
        earlier: list[ProducerBatch] = []
        while queue.batches and _is_before(queue.batches[0], batches[0], queue):
            earlier.append(queue.batches.popleft())
        queue.batches.extendleft(reversed((*earlier, *batches)))
        self.backlog_bytes += sum(batch.size_bytes for batch in batches)

    def came_back(self, queue: PartitionQueue) -> None:
        """A batch of a partition is no longer on its way."""
        queue.in_flight_count -= 1

    def forget_locked(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A batch is to be settled: out of its queue, if it is there, and its memory is free."""
        self.unsettled.pop(batch, None)
        if queue.open is batch:
            self._close_open_locked(queue, batch)
            queue.batches.remove(batch)
        elif batch in queue.batches:
            queue.batches.remove(batch)
            self.backlog_bytes -= batch.size_bytes
        if queue.batches:
            self.ready[queue] = None
        self.memory.give_back(batch.reserved_bytes)

    def hurry_locked(self) -> list[ProducerBatch]:
        """Nothing shall linger any longer; returns all that is not settled."""
        for batch, (_, queue) in list(self._lingering.items()):
            self._make_due_locked(queue, batch)
        return list(self.unsettled)

    def _make_due_locked(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """An open batch may be taken, full or not."""
        self._lingering.pop(batch, None)
        batch.is_due = True
        self.ready[queue] = None

    def expired_locked(self, now_ms: int, limit_ms: int) -> list[ProducerBatch]:
        """Batches that were begun longer ago than that."""
        expired = []
        for batch in self.unsettled:
            if now_ms - batch.created_ms < limit_ms:
                break
            expired.append(batch)
        return expired

    def queue_of(self, batch: ProducerBatch) -> PartitionQueue:
        return self.topics[batch.topic].queues[batch.partition]

    def topic_locked(self, name: str, make: Callable[[], StickyPartition]) -> TopicQueues:
        known = self.topics.get(name)
        if known is None:
            known = self.topics[name] = TopicQueues(name, make())
        return known


def _is_before(other: ProducerBatch, batch: ProducerBatch, queue: PartitionQueue) -> bool:
    """Whether another batch of the queue has an earlier place than one that comes back."""
    for each in queue.sequences.unsettled:
        if each is batch:
            return False
        if each is other:
            return True
    return False


def batch_bytes_of(key: bytes | None, value: bytes | None, tail: bytes) -> int:
    """What a batch of one record takes, at most."""
    return HEADER_BYTES + _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"") + len(tail)
