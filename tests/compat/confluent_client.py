"""confluent-kafka (librdkafka) behind the interface of `tests.compat.clients`.

Note: `close` does not close the consumer but drops it, since closing makes librdkafka look for the
coordinator of a group that it never joined.
"""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.compat.clients import (
    TIMEOUT_S,
    OpenConsumer,
    OpenProducer,
    Reading,
    Received,
    Sending,
    Sent,
)


class Confluent:
    name = "confluent-kafka"

    def lacks(self, codec: str) -> str | None:
        del codec
        return None

    def producer(self, servers: str, sending: Sending) -> OpenProducer:
        return _Producer(servers, sending)

    def consumer(self, servers: str, reading: Reading) -> OpenConsumer:
        return _Consumer(servers, reading)


class _Producer:
    def __init__(self, servers: str, sending: Sending) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "compression.type": sending.codec,
                "acks": sending.acks,
                "enable.idempotence": sending.is_idempotent,
                "linger.ms": sending.linger_ms,
                "message.max.bytes": sending.largest_bytes,
                "message.timeout.ms": sending.delivery_timeout_ms,
                "topic.metadata.propagation.max.ms": min(30_000, sending.delivery_timeout_ms),
                "queue.buffering.max.messages": 1_000_000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._places: list[tuple[int, int]] = []
        self._errors: list[KafkaError] = []

    def send(self, topic: str, record: Sent) -> None:
        number = len(self._places)
        self._places.append((-1, -1))

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._errors.append(error)
                return
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            self._places[number] = (partition, -1 if offset is None else offset)

        optional: dict[str, Any] = {}
        if record.partition is not None:
            optional["partition"] = record.partition
        if record.timestamp_ms is not None:
            optional["timestamp"] = record.timestamp_ms
        self._producer.produce(
            topic,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            on_delivery=delivered,
            **optional,
        )
        self._producer.poll(0)

    def finish(self) -> list[tuple[int, int]]:
        assert self._producer.flush(TIMEOUT_S) == 0
        places, errors = self._places, self._errors
        self._places, self._errors = [], []
        if errors:
            raise KafkaException(errors[0])
        return places

    def close(self) -> None:
        self._producer.flush(TIMEOUT_S)


class _Consumer:
    def __init__(self, servers: str, reading: Reading) -> None:
        isolation = "read_committed" if reading.is_committed_only else "read_uncommitted"
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "none",
                "enable.auto.commit": False,
                "auto.offset.reset": reading.reset or "error",
                "isolation.level": isolation,
                "fetch.wait.max.ms": reading.wait_ms,
                "fetch.min.bytes": reading.min_bytes,
                "fetch.message.max.bytes": reading.partition_bytes,
                "fetch.max.bytes": reading.total_bytes,
                "message.max.bytes": min(1_000_000, reading.total_bytes),
                "receive.message.max.bytes": 200_000_000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        self._consumer.assign([TopicPartition(topic, *each) for each in offsets.items()])

    def poll(self, wait_s: float) -> list[Received]:
        received = []
        # Wait for one; take more only if they are there already.
        for message in self._consumer.consume(1, wait_s) + self._consumer.consume(10_000, 0):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            received.append(_received(message))
        return received

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(topic, partition, offset))

    def pause(self, topic: str, partition: int) -> None:
        self._consumer.pause([TopicPartition(topic, partition)])

    def resume(self, topic: str, partition: int) -> None:
        self._consumer.resume([TopicPartition(topic, partition)])

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        low, high = self._consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=TIMEOUT_S
        )
        return low, high

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        asked = [TopicPartition(topic, partition, timestamp_ms)]
        (found,) = self._consumer.offsets_for_times(asked, timeout=TIMEOUT_S)
        if found.error is not None:
            raise KafkaException(found.error)
        return found.offset if found.offset >= 0 else None

    def close(self) -> None:
        self._consumer.unassign()


def _received(message: Message) -> Received:
    kind, timestamp_ms = message.timestamp()
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    headers: Any = message.headers() or ()
    return Received(
        key=message.key(),
        value=message.value(),
        headers=tuple(headers),
        timestamp_ms=timestamp_ms,
        is_append_time=kind == TIMESTAMP_LOG_APPEND_TIME,
        partition=partition,
        offset=offset,
    )
