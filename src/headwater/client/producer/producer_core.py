"""The part of both producers that runs in the caller's thread.

`send` never waits. It returns a future, or the record with what is missing: metadata or memory. The
blocking producer then waits on a condition, the asyncio producer awaits; both retry with
`send_again`. Thread-safe.

Note: this is the hot path of every record. In the common case it is a lookup, a partition choice
and one call into the compiled kernel under the lock.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Any, Final, SupportsIndex

from headwater.client.errors import (
    BufferExhausted,
    ClientClosed,
    InvalidPartitions,
    KafkaError,
    MessageTooLarge,
    SerializationFailed,
)
from headwater.client.network.cluster_metadata import NO_NODE, ClusterMetadata
from headwater.client.producer.buffer_pool import MemoryClaim
from headwater.client.producer.partition_queues import PartitionQueue, PlacedBatch, TopicQueues
from headwater.client.producer.partitioner import (
    POSITIVE,
    StickyPartition,
    partition_for_key,
    partitioner,
)
from headwater.client.producer.pending_record import Missing, PendingRecord
from headwater.client.producer.producer_settings import ProducerSettings
from headwater.client.producer.record_accumulator import RecordAccumulator, batch_bytes_of
from headwater.client.producer.record_future import RecordFuture
from headwater.client.producer.record_validation import (
    check_headers,
    check_serialized,
    timestamp_ms,
)
from headwater.client.serialization.serdes import serializer
from headwater.common.ports import Clock, Random
from headwater.records.batch_building import encode_headers
from headwater.records.batch_header import Codec
from headwater.records.kernel import murmur2

Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]
OnDelivery = Callable[[RecordFuture], object]

_NO_HEADERS: Final = b"\0"


class ProducerCore:
    """Takes records from callers, in their threads."""

    def __init__(
        self, settings: ProducerSettings, clock: Clock, rng: Random, wake: Callable[[], None]
    ) -> None:
        self.settings = settings
        self.accumulator = RecordAccumulator(
            batch_bytes=settings.batch_size,
            linger_ms=settings.linger_ms,
            memory_bytes=settings.buffer_memory,
            is_compressing=settings.codec is not Codec.NONE,
        )
        self.failure: KafkaError | None = None
        """Why no more records are accepted, if so."""
        self.now_ms: Callable[[], int] = clock.now_ms
        self.steady_ms: Callable[[], int] = clock.steady_ms
        self._rng = rng
        self._wake = wake
        self._key_serializer = serializer(settings.key_serializer, "key.serializer")
        self._value_serializer = serializer(settings.value_serializer, "value.serializer")
        self._partitioner = partitioner(settings.partitioner_class)
        self._ignores_keys = settings.partitioner_ignore_keys

    def send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp: int | None,
        headers: Headers | None,
    ) -> RecordFuture | PendingRecord:
        """Take one record. Raises errors of the record or of the producer."""
        if self.failure is not None:
            raise self.failure
        if self._key_serializer is not None and key is not None:
            key = _serialized(self._key_serializer, key, "key")
        if self._value_serializer is not None and value is not None:
            value = _serialized(self._value_serializer, value, "value")
        tail = _NO_HEADERS if not headers else _tail(headers)
        if timestamp is not None and (timestamp.__class__ is not int or timestamp < 0):
            timestamp = timestamp_ms(timestamp)
        queues = self.accumulator.topics.get(topic)
        if queues is not None and (count := queues.partition_count):
            if timestamp is None:
                timestamp = self.now_ms()
            if partition is not None:
                place = partition
            elif self._partitioner is not None:
                place = partition = self._partitioned(topic, key, value, count)
            elif key is not None and not self._ignores_keys:
                # `partition_for_key`, inlined: the call would cost 3% of `send`.
                place = (murmur2(key) & POSITIVE) % count
            else:
                place = queues.sticky.partition
            if 0 <= place < count and (open_append := queues.queues[place].open_append) is not None:
                batch, append = open_append
                number = append(timestamp, key, value, tail)
                if number >= 0:
                    return RecordFuture(batch, number, timestamp)
        return self._place(PendingRecord(topic, value, key, partition, timestamp, tail))

    def send_again(self, record: PendingRecord) -> RecordFuture | PendingRecord:
        """Retry a record after waiting."""
        if record.missing is not Missing.METADATA:
            record.is_eager = True
        return self._place(record)

    def stop_waiting(self, record: PendingRecord) -> None:
        """Release the memory claim of a record that was taken or given up."""
        if record.claim is not None:
            self.cancel_wait(record.claim)

    def cancel_wait(self, claim: MemoryClaim) -> None:
        """Release a memory claim."""
        with self.accumulator.lock:
            self.accumulator.memory.cancel(claim)

    def exhausted(self) -> BufferExhausted:
        """The error after waiting for memory too long."""
        return BufferExhausted(
            f"buffer.memory ({self.settings.buffer_memory} bytes) was full for max.block.ms "
            f"({self.settings.max_block_ms} ms)"
        )

    # The slow path: no open batch with room.

    def _place(self, record: PendingRecord) -> RecordFuture | PendingRecord:
        """Append a record to a batch of its partition, or return what it must wait for."""
        queues = self.accumulator.topics.get(record.topic)
        count = 0 if queues is None else queues.partition_count
        if count and record.partition is None and self._partitioner is not None:
            record.partition = self._partitioned(record.topic, record.key, record.value, count)
        if queues is None or not count or not 0 <= (record.partition or 0) < count:
            # Do not hold a memory claim while waiting for the topic.
            self.stop_waiting(record)
            record.missing = Missing.METADATA
            return record
        if record.timestamp is None:
            record.timestamp = self.now_ms()
        with self.accumulator.lock:
            # Checked under the lock: a record added after closing would never complete.
            if self.failure is not None:
                raise self.failure
            # Full batches can be sent, even if there is no memory for more.
            self._wake()
            if record.partition is not None:
                return self._append_locked(queues.queues[record.partition], record)
            if record.key is not None and not self._ignores_keys:
                place = partition_for_key(record.key, count)
                return self._append_locked(queues.queues[place], record)
            return self._append_sticky_locked(queues, record)

    def _append_sticky_locked(
        self, queues: TopicQueues, record: PendingRecord
    ) -> RecordFuture | PendingRecord:
        sticky = queues.sticky
        if sticky.partition >= 0:
            queue = queues.queues[sticky.partition]
            if queue.open is None and sticky.produced_bytes < self.settings.batch_size:
                return self._begin_locked(queue, record)
            joined = _joined(queue, record)
            if joined is not None:
                return joined
            # The batch is full: move to another partition.
            self.accumulator.close_locked(queue)
        return self._append_locked(queues.queues[queues.move_sticky()], record)

    def _append_locked(
        self, queue: PartitionQueue, record: PendingRecord
    ) -> RecordFuture | PendingRecord:
        # Another caller may have opened a batch meanwhile.
        return _joined(queue, record) or self._begin_locked(queue, record)

    def _begin_locked(
        self, queue: PartitionQueue, record: PendingRecord
    ) -> RecordFuture | PendingRecord:
        """Open a batch with this record."""
        timestamp, key, value, tail = record.timestamp, record.key, record.value, record.tail
        assert timestamp is not None
        self._check_size(batch_bytes_of(key, value, tail))
        if not record.is_eager and self.accumulator.is_behind:
            record.missing = Missing.CATCH_UP
            return record
        begun = self.accumulator.open_locked(
            queue, timestamp, key, value, tail, self.steady_ms(), record.claim
        )
        if isinstance(begun, MemoryClaim):
            record.missing = begun
            return record
        return RecordFuture(begun, 0, timestamp)

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self.settings.max_request_size:
            raise MessageTooLarge(
                f"a record of about {size_bytes} bytes exceeds max.request.size "
                f"({self.settings.max_request_size})"
            )
        if not self.accumulator.memory.fits(size_bytes):
            raise MessageTooLarge(
                f"a record of about {size_bytes} bytes exceeds buffer.memory "
                f"({self.settings.buffer_memory})"
            )

    def learn(self, metadata: ClusterMetadata) -> None:
        """Apply new metadata: partition counts and partitions with leaders."""
        with self.accumulator.lock:
            for name, view in metadata.topics.items():
                if view.partitions:
                    known = self.accumulator.topic_locked(name, self._new_sticky)
                    known.resize(
                        len(view.partitions),
                        [each.partition for each in view.partitions if each.leader_id != NO_NODE],
                    )
            for name, known in self.accumulator.topics.items():
                if name not in metadata.topics or not metadata.topics[name].partitions:
                    # As in Kafka, callers wait until the topic exists again.
                    known.resize(0)

    def put(
        self, batches: Sequence[PlacedBatch], claim: MemoryClaim | None = None
    ) -> MemoryClaim | None:
        """Take whole batches; without memory for all, return a claim to retry with."""
        with self.accumulator.lock:
            if self.failure is not None:
                raise self.failure
            # delivery.timeout.ms starts when they have memory; the oldest expire first.
            now_ms = self.steady_ms()
            for _, batch in batches:
                batch.created_ms = now_ms
            waiting = self.accumulator.put_locked(batches, claim)
        self._wake()
        return waiting

    def fail(self, error: KafkaError) -> None:
        """Accept no more records, and wake callers that wait for memory."""
        if self.failure is None or isinstance(error, ClientClosed):
            self.failure = error
        with self.accumulator.lock:
            self.accumulator.memory.notify_all()
            self.accumulator.caught_up.notify_all()

    def _partitioned(self, topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        """Call `partitioner.class`."""
        assert self._partitioner is not None
        partition = self._partitioner(topic, key, value, count)
        if not isinstance(partition, SupportsIndex) or not 0 <= index(partition) < count:
            raise InvalidPartitions(
                f"the partitioner chose {partition!r} for {topic}, which has partitions 0 to "
                f"{count - 1}"
            )
        return index(partition)

    def _new_sticky(self) -> StickyPartition:
        return StickyPartition(
            self._rng, is_adaptive=self.settings.partitioner_adaptive_partitioning_enable
        )


def _joined(queue: PartitionQueue, record: PendingRecord) -> RecordFuture | None:
    """Append a record to the open batch of its partition, if there is room."""
    if queue.open_append is None:
        return None
    batch, append = queue.open_append
    assert record.timestamp is not None
    number = append(record.timestamp, record.key, record.value, record.tail)
    return None if number < 0 else RecordFuture(batch, number, record.timestamp)


def _serialized(serialize: Callable[[Any], bytes], value: Any, what: str) -> bytes:
    try:
        made = serialize(value)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise SerializationFailed(f"cannot serialize the {what}: {error}") from error
    if made.__class__ is not bytes:
        check_serialized(made, what)
    return made


def _tail(headers: Headers) -> bytes:
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    try:
        return encode_headers(pairs)
    except (TypeError, ValueError, AttributeError):
        # Checked here, because a generator cannot be read again.
        check_headers(pairs)
        raise
