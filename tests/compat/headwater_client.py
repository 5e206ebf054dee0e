"""Our own clients behind the interface of `tests.compat.clients`.

What our producer writes, librdkafka reads, and the other way round: an error that our producer and
consumer shared would go unnoticed.
"""

from collections.abc import Mapping

from headwater.client import Consumer, ConsumerRecord, Producer, RecordFuture, TopicPartition
from headwater.records.batch_header import TimestampType
from tests.compat.clients import (
    TIMEOUT_S,
    OpenConsumer,
    OpenProducer,
    Reading,
    Received,
    Sending,
    Sent,
)
from tests.compat.confluent_client import Confluent

_REQUEST_MS = 10_000


class HeadwaterProducer:
    name = "headwater-producer"

    def lacks(self, codec: str) -> str | None:
        del codec
        return None

    def producer(self, servers: str, sending: Sending) -> OpenProducer:
        return _Producer(servers, sending)

    def consumer(self, servers: str, reading: Reading) -> OpenConsumer:
        return Confluent().consumer(servers, reading)


class _Producer:
    def __init__(self, servers: str, sending: Sending) -> None:
        request_ms = min(_REQUEST_MS, sending.delivery_timeout_ms - sending.linger_ms)
        self._producer = Producer(
            bootstrap_servers=servers,
            compression_type=sending.codec,
            acks=sending.acks,
            enable_idempotence=sending.is_idempotent,
            linger_ms=sending.linger_ms,
            max_request_size=sending.largest_bytes,
            max_block_ms=sending.delivery_timeout_ms,
            request_timeout_ms=request_ms,
            delivery_timeout_ms=sending.delivery_timeout_ms,
        )
        self._sent: list[RecordFuture] = []

    def send(self, topic: str, record: Sent) -> None:
        self._sent.append(
            self._producer.send(
                topic,
                record.value,
                key=record.key,
                partition=record.partition,
                timestamp=record.timestamp_ms,
                headers=record.headers,
            )
        )

    def finish(self) -> list[tuple[int, int]]:
        sent, self._sent = self._sent, []
        results = [future.result(TIMEOUT_S) for future in sent]
        return [(each.partition, each.offset) for each in results]

    def close(self) -> None:
        self._producer.close(0)


class HeadwaterConsumer:
    name = "headwater-consumer"

    def lacks(self, codec: str) -> str | None:
        del codec
        return None

    def producer(self, servers: str, sending: Sending) -> OpenProducer:
        return Confluent().producer(servers, sending)

    def consumer(self, servers: str, reading: Reading) -> OpenConsumer:
        return _Consumer(servers, reading)


class _Consumer:
    def __init__(self, servers: str, reading: Reading) -> None:
        self._consumer = Consumer(
            bootstrap_servers=servers,
            auto_offset_reset=reading.reset or "none",
            isolation_level="read_committed" if reading.is_committed_only else "read_uncommitted",
            fetch_max_wait_ms=reading.wait_ms,
            fetch_min_bytes=reading.min_bytes,
            max_partition_fetch_bytes=reading.partition_bytes,
            fetch_max_bytes=reading.total_bytes,
        )

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        self._consumer.assign([TopicPartition(topic, number) for number in offsets])
        for number, offset in offsets.items():
            self.seek(topic, number, offset)

    def poll(self, wait_s: float) -> list[Received]:
        return [_received(record) for record in self._consumer.poll(wait_s)]

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(topic, partition), offset)

    def pause(self, topic: str, partition: int) -> None:
        self._consumer.pause([TopicPartition(topic, partition)])

    def resume(self, topic: str, partition: int) -> None:
        self._consumer.resume([TopicPartition(topic, partition)])

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        place = TopicPartition(topic, partition)
        first = self._consumer.beginning_offsets([place])[place]
        return first, self._consumer.end_offsets([place])[place]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        place = TopicPartition(topic, partition)
        found = self._consumer.offsets_for_times({place: timestamp_ms})[place]
        return None if found is None else found.offset

    def close(self) -> None:
        self._consumer.close()


def _received(record: ConsumerRecord) -> Received:
    return Received(
        key=record.key,
        value=record.value,
        headers=record.headers,
        timestamp_ms=record.timestamp,
        is_append_time=record.timestamp_type is TimestampType.LOG_APPEND_TIME,
        partition=record.partition,
        offset=record.offset,
    )
