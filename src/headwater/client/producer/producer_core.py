"""What both faces of a producer share: records in, futures out, and when the caller must wait.

`send` never waits. It returns a future, or says what is missing: the topic's metadata, or memory.
The blocking face then waits on a condition, the asyncio face awaits; both come back with the same
call. It may be called from any thread.

What a reader would get wrong: this is the path of every record, so it has few steps on purpose. In
the usual case it is a lookup, a partition, and one call into the compiled kernel under the lock.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final

from headwater.client.cluster_metadata import NO_NODE, ClusterMetadata
from headwater.client.errors import (
    ClientClosed,
    InvalidPartitions,
    KafkaError,
    MessageTooLarge,
    SerializationFailed,
)
from headwater.client.producer.accumulator import (
    Accumulator,
    PartitionQueue,
    Shortage,
    TopicQueues,
    batch_bytes_of,
)
from headwater.client.producer.bad_records import timestamp_ms
from headwater.client.producer.partitioning import StickyPartition, partitioner
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.producer_settings import ProducerSettings
from headwater.client.producer.record_future import RecordFuture
from headwater.client.serdes import serializer
from headwater.model.ports import Clock, Dice
from headwater.records.building import encode_headers
from headwater.records.header import Codec
from headwater.records.kernel import murmur2

Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]
OnDelivery = Callable[[RecordFuture], object]

_NO_HEADERS: Final = b"\0"
_POSITIVE: Final = 0x7FFFFFFF


class Missing(Enum):
    """What a record waits for before it can be taken, if it is not memory (`Shortage`)."""

    METADATA = "metadata"
    PATIENCE = "patience"
    """Nothing is missing, but the sender should catch up; then the record may be sent `eagerly`."""


class ProducerCore:
    """The part of a producer that callers run, in their own thread."""

    def __init__(
        self, settings: ProducerSettings, clock: Clock, dice: Dice, wake: Callable[[], None]
    ) -> None:
        self.settings = settings
        self.accumulator = Accumulator(
            batch_bytes=settings.batch_size,
            linger_ms=settings.linger_ms,
            memory_bytes=settings.buffer_memory,
            is_compressing=settings.codec is not Codec.NONE,
        )
        self.refusal: KafkaError | None = None
        """Why no record is taken any more, if so."""
        self.now_ms: Callable[[], int] = clock.now_ms
        self.steady_ms: Callable[[], int] = clock.steady_ms
        self._dice = dice
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
        eagerly: bool = False,
    ) -> RecordFuture | Missing | Shortage:
        """Take one record. Raises what is wrong with the record or with the producer."""
        if self.refusal is not None:
            raise self.refusal
        if self._key_serializer is not None and key is not None:
            key = _serialized(self._key_serializer, key, "key")
        if self._value_serializer is not None and value is not None:
            value = _serialized(self._value_serializer, value, "value")
        queues = self.accumulator.topics.get(topic)
        if queues is None or not (count := queues.partition_count):
            return Missing.METADATA
        tail = _NO_HEADERS if not headers else _tail(headers)
        if timestamp is None:
            timestamp = self.now_ms()
        elif timestamp.__class__ is not int or timestamp < 0:
            timestamp = timestamp_ms(timestamp)
        if partition is not None:
            if not 0 <= partition < count:
                return Missing.METADATA
        elif self._partitioner is not None:
            partition = self._partitioner(topic, key, value, count)
            if not 0 <= partition < count:
                raise InvalidPartitions(f"the partitioner chose {partition} of {topic}")
        elif key is not None and not self._ignores_keys:
            partition = (murmur2(key) & _POSITIVE) % count
        else:
            return self._append_sticky(queues, timestamp, key, value, tail, eagerly)
        return self._append(queues.queues[partition], timestamp, key, value, tail, eagerly)

    def _append(
        self,
        queue: PartitionQueue,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        tail: bytes,
        eagerly: bool,
    ) -> RecordFuture | Missing | Shortage:
        way_in = queue.way_in
        if way_in is not None:
            batch, append = way_in
            index = append(timestamp, key, value, tail)
            if index >= 0:
                return RecordFuture(batch, index, timestamp)
        with self.accumulator.lock:
            if queue.way_in is not way_in and queue.way_in is not None:
                # Another caller has begun a batch meanwhile.
                batch, append = queue.way_in
                index = append(timestamp, key, value, tail)
                if index >= 0:
                    return RecordFuture(batch, index, timestamp)
            return self._append_new_locked(queue, timestamp, key, value, tail, eagerly)

    def _append_sticky(
        self,
        queues: TopicQueues,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        tail: bytes,
        eagerly: bool,
    ) -> RecordFuture | Missing | Shortage:
        sticky = queues.sticky
        partition = sticky.partition
        way_in = queues.queues[partition].way_in if partition >= 0 else None
        if way_in is not None:
            batch, append = way_in
            index = append(timestamp, key, value, tail)
            if index >= 0:
                return RecordFuture(batch, index, timestamp)
        with self.accumulator.lock:
            if sticky.partition < 0:
                queues.move_sticky()
            elif sticky.partition == partition and (
                (way_in is not None and queues.queues[partition].way_in is way_in)
                or sticky.produced_bytes >= self.settings.batch_size
            ):
                # A batch of the partition is full, so the next one may well be elsewhere.
                self.accumulator.close_locked(queues.queues[partition])
                queues.move_sticky()
            queue = queues.queues[sticky.partition]
            if queue.way_in is not None:
                batch, append = queue.way_in
                index = append(timestamp, key, value, tail)
                if index >= 0:
                    self._wake()
                    return RecordFuture(batch, index, timestamp)
            return self._append_new_locked(queue, timestamp, key, value, tail, eagerly)

    def _append_new_locked(
        self,
        queue: PartitionQueue,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        tail: bytes,
        eagerly: bool,
    ) -> RecordFuture | Missing | Shortage:
        """Begin a batch with this record."""
        self._check_size(batch_bytes_of(key, value, tail))
        # What is full can leave, even if there is no memory for more.
        self._wake()
        if not eagerly and self.accumulator.is_behind:
            return Missing.PATIENCE
        batch = self.accumulator.open_locked(queue, timestamp, key, value, tail, self.steady_ms())
        return batch if isinstance(batch, Shortage) else RecordFuture(batch, 0, timestamp)

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self.settings.max_request_size:
            raise MessageTooLarge(
                f"a record of about {size_bytes} bytes is more than max.request.size "
                f"({self.settings.max_request_size})"
            )
        if not self.accumulator.fits(size_bytes):
            raise MessageTooLarge(
                f"a record of about {size_bytes} bytes is more than buffer.memory "
                f"({self.settings.buffer_memory})"
            )

    def learn(self, metadata: ClusterMetadata) -> None:
        """New metadata: how many partitions topics have, and which can be written to."""
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
                    # Kafka does this: whoever sends waits until the topic is there again.
                    known.resize(0)

    def put(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Take a whole batch; False if memory is short."""
        if self.refusal is not None:
            raise self.refusal
        with self.accumulator.lock:
            is_put = self.accumulator.put_locked(queue, batch)
        self._wake()
        return is_put

    def refuse(self, error: KafkaError) -> None:
        """Take no more records, and wake those who wait for memory."""
        if self.refusal is None or isinstance(error, ClientClosed):
            self.refusal = error
        with self.accumulator.lock:
            self.accumulator.room.notify_all()
            self.accumulator.caught_up.notify_all()

    def _new_sticky(self) -> StickyPartition:
        return StickyPartition(
            self._dice, is_adaptive=self.settings.partitioner_adaptive_partitioning_enable
        )


def _serialized(serialize: Callable[[Any], bytes], value: Any, what: str) -> bytes:
    try:
        return serialize(value)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise SerializationFailed(f"the {what} could not be serialized: {error}") from error


def _tail(headers: Headers) -> bytes:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return encode_headers(list(pairs))
