"""Records waiting to be sent: a queue of batches per partition, in bounded memory.

Pure except for its locks: callers in any thread append records, the sender takes batches.

Note:
- A record is appended to an open batch without the lock. That is one call into the compiled kernel;
  a batch that was just closed rejects it, and the caller opens the next one under the lock.
- No operation scans all partitions. Batches linger equally long, so one queue in order of creation
  gives the due ones; `ready` has the partitions with sendable batches.
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

# Upper bound for the varints and attributes of a record.
_RECORD_OVERHEAD_BYTES = 36
# Records that compress very well make a batch at most twenty times its limit.
_LEAST_RATIO = 0.05
# Batches that wait to be sent. Beyond this a caller waits for the sender: two threads that compete
# for the GIL are slower than two that take turns.
BACKLOG_BYTES = 1_048_576


class RecordAccumulator:
    """All unsent and unacknowledged batches. `..._locked` methods require `lock`."""

    def __init__(
        self, *, batch_bytes: int, linger_ms: int, memory_bytes: int, is_compressing: bool
    ) -> None:
        self.lock = threading.Lock()
        self._builder_lock = threading.Lock()
        # Callers wait on it for the sender to catch up.
        self.caught_up = threading.Condition(self.lock)
        self.memory = BufferPool(memory_bytes, batch_bytes=batch_bytes)
        self.topics: dict[str, TopicQueues] = {}
        # Partitions with sendable batches, in the order in which they became ready.
        self.ready: dict[PartitionQueue, None] = {}
        self.incomplete: dict[ProducerBatch, None] = {}
        self.backlog_bytes = 0
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._is_compressing = is_compressing
        # Open batches that are not due yet, oldest first, with their due times.
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
        """Open a new batch with this record, or return a claim if there is no memory.

        After waiting, the caller passes the claim again.
        """
        self.close_locked(queue)
        limit_bytes = self._batch_bytes
        if self._is_compressing:
            limit_bytes = int(limit_bytes / max(queue.topic.ratio, _LEAST_RATIO))
        # Never wait for more than the total memory.
        limit_bytes = min(limit_bytes, self.memory.total_bytes)
        needed_bytes = max(limit_bytes, batch_bytes_of(key, value, tail))
        builder = BatchBuilder(max(limit_bytes, HEADER_BYTES))
        # First of all, because it rejects values that are not bytes.
        builder.append(timestamp, key, value, tail)
        if not self.memory.allocate(needed_bytes, claim):
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
        queue.open_append = (batch, self._way_into(builder))
        self._add_locked(queue, batch)
        if self._linger_ms == 0 or self.is_flushing or self.memory.waiting_count:
            self._make_due_locked(queue, batch)
        else:
            self._lingering[batch] = (now_ms + self._linger_ms, queue)
        return batch

    def _way_into(self, builder: BatchBuilder) -> Append:
        append = builder.append
        if IS_COMPILED:
            # Atomic under the GIL, so it needs no lock.
            return append

        def append_alone(
            timestamp: int, key: bytes | None, value: bytes | None, tail: bytes
        ) -> int:
            with self._builder_lock:
                return append(timestamp, key, value, tail)

        return append_alone

    def close_locked(self, queue: PartitionQueue) -> None:
        """Close the open batch of a partition, if any; it can then be taken."""
        batch = queue.open
        if batch is not None:
            self._close_open_locked(queue, batch)
            self.backlog_bytes += batch.size_bytes
            self.ready[queue] = None

    def _close_open_locked(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        queue.open = queue.open_append = None
        self._lingering.pop(batch, None)
        # Appends of the pure kernel hold this lock; none may be in progress.
        with self._builder_lock:
            batch.close()

    def put_locked(
        self, batches: Sequence[PlacedBatch], claim: MemoryClaim | None = None
    ) -> MemoryClaim | None:
        """Add whole batches at the end; without memory for all, return a claim as above."""
        needed_bytes = sum(batch.reserved_bytes for _, batch in batches)
        if not self.memory.allocate(needed_bytes, claim):
            return self._wait_in_line_locked(needed_bytes, claim)
        for queue, batch in batches:
            self.close_locked(queue)
            self._add_locked(queue, batch)
            self.backlog_bytes += batch.size_bytes
            self.ready[queue] = None
        return None

    def _wait_in_line_locked(self, needed_bytes: int, claim: MemoryClaim | None) -> MemoryClaim:
        # Nothing lingers while a caller waits, so that memory becomes free.
        self.expire_linger_locked()
        return self.memory.enqueue(needed_bytes, claim)

    @property
    def is_behind(self) -> bool:
        """Whether so much is unsent that callers should wait for the sender."""
        return self.backlog_bytes > BACKLOG_BYTES

    def wait_for_memory(self, claim: MemoryClaim, timeout_s: float) -> bool:
        """Block until a claim is called; False after the timeout."""
        called = threading.Event()
        with self.lock:
            if claim.is_called:
                return True
            claim.on_called = called.set
        return called.wait(timeout_s)

    def wait_for_sender(self, timeout_s: float) -> None:
        """Block briefly until half of the backlog is gone: a leader may be offline."""
        with self.lock:
            self.caught_up.wait_for(self.is_caught_up, timeout_s)

    def is_caught_up(self) -> bool:
        return self.backlog_bytes <= BACKLOG_BYTES // 2

    def notify_locked(self) -> None:
        """Wake callers that wait for the sender, if it has caught up."""
        if self.is_caught_up():
            self.caught_up.notify_all()

    def _add_locked(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        queue.batches.append(batch)
        self.incomplete[batch] = None

    # Taking batches.

    def collect_locked(self, now_ms: int) -> None:
        """Move batches whose linger or retry time is over to `ready`."""
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
        """Take the first batch of a partition; it is in flight from now on."""
        batch = queue.batches.popleft()
        # Moves to the end, so that a busy partition does not starve others.
        self.ready.pop(queue, None)
        self.ready[queue] = None
        if queue.open is batch:
            self._close_open_locked(queue, batch)
            sticky = queue.topic.sticky
            if queue.partition == sticky.partition:
                # A batch sent half full does not switch the partition by itself (KIP-794).
                sticky.produced_bytes += batch.size_bytes
        else:
            self.backlog_bytes -= batch.size_bytes
        queue.in_flight_count += 1
        return batch

    def is_sendable_locked(self, queue: PartitionQueue, now_ms: int) -> bool:
        """Whether the first batch of a ready partition may be taken now.

        If not, the partition is removed from `ready` until the obstacle is gone.
        """
        if not queue.batches:
            del self.ready[queue]
            return False
        if queue.open is queue.batches[0] and not queue.open.is_due:
            # It is still lingering.
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
        """Put back a batch for a retry, before all later ones."""
        self._insert_locked(queue, (batch,))
        queue.not_before_ms = max(queue.not_before_ms, not_before_ms)
        self.ready[queue] = None

    def replace_locked(
        self, queue: PartitionQueue, batch: ProducerBatch, parts: Sequence[ProducerBatch]
    ) -> None:
        """Replace a batch that is no longer in flight by its parts."""
        # Keep the order by age: the oldest expires first.
        self.incomplete = dict.fromkeys(
            each for known in self.incomplete for each in (parts if known is batch else (known,))
        )
        self._insert_locked(queue, parts)
        self.ready[queue] = None

    def _insert_locked(self, queue: PartitionQueue, batches: Sequence[ProducerBatch]) -> None:
        """Insert batches in front of all but those with earlier sequences.

        Others may have been put back before, and only the lowest sequence may be sent.
        """
        earlier: list[ProducerBatch] = []
        while queue.batches and _is_before(queue.batches[0], batches[0], queue):
            earlier.append(queue.batches.popleft())
        queue.batches.extendleft(reversed((*earlier, *batches)))
        self.backlog_bytes += sum(batch.size_bytes for batch in batches)

    def remove_in_flight(self, queue: PartitionQueue) -> None:
        """A batch of a partition is no longer in flight."""
        queue.in_flight_count -= 1

    def forget_locked(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Remove a batch that will be completed, and release its memory."""
        self.incomplete.pop(batch, None)
        if queue.open is batch:
            self._close_open_locked(queue, batch)
            queue.batches.remove(batch)
        elif batch in queue.batches:
            queue.batches.remove(batch)
            self.backlog_bytes -= batch.size_bytes
        if queue.batches:
            self.ready[queue] = None
        self.memory.deallocate(batch.reserved_bytes)

    def expire_linger_locked(self) -> list[ProducerBatch]:
        """Make all lingering batches due; return all incomplete batches."""
        for batch, (_, queue) in list(self._lingering.items()):
            self._make_due_locked(queue, batch)
        return list(self.incomplete)

    def _make_due_locked(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Allow an open batch to be taken, full or not."""
        self._lingering.pop(batch, None)
        batch.is_due = True
        self.ready[queue] = None

    def expired_locked(self, now_ms: int, limit_ms: int) -> list[ProducerBatch]:
        """Batches older than the limit."""
        expired = []
        for batch in self.incomplete:
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
    """Whether another batch of the queue precedes one that is put back."""
    for each in queue.sequences.incomplete:
        if each is batch:
            return False
        if each is other:
            return True
    return False


def batch_bytes_of(key: bytes | None, value: bytes | None, tail: bytes) -> int:
    """Upper bound for the size of a batch with this record only."""
    return HEADER_BYTES + _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"") + len(tail)
