"""kafka-python and aiokafka behind the interface of `tests.compat.clients`.

They have a common origin, and similar records, settings and errors.

Note: aiokafka's loop runs in a thread of its own all the time, as in an application; otherwise it
would do nothing between two calls of a test.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.compat.clients import (
    TIMEOUT_S,
    OpenConsumer,
    OpenProducer,
    Reading,
    Received,
    Sending,
    Sent,
)
from tests.compat.foreign import load
from tests.compat.loop_thread import LoopThread

aiokafka = load("aiokafka")
kafka = load("kafka")
_kafka_codec = load("kafka.codec")

_TIMEOUT_MS = int(TIMEOUT_S * 1_000)


class KafkaPython:
    name = "kafka-python"

    def lacks(self, codec: str) -> str | None:
        if codec == "none" or getattr(_kafka_codec, f"has_{codec}")():
            return None
        return f"kafka-python finds no library for {codec}"

    def producer(self, servers: str, sending: Sending) -> OpenProducer:
        return _Producer(servers, sending)

    def consumer(self, servers: str, reading: Reading) -> OpenConsumer:
        return _Consumer(servers, reading)


class AioKafka:
    name = "aiokafka"

    def lacks(self, codec: str) -> str | None:
        del codec
        return None

    def producer(self, servers: str, sending: Sending) -> OpenProducer:
        return _AsyncProducer(servers, sending)

    def consumer(self, servers: str, reading: Reading) -> OpenConsumer:
        return _AsyncConsumer(servers, reading)


def _sending(servers: str, sending: Sending) -> dict[str, Any]:
    return {
        "bootstrap_servers": servers,
        "compression_type": None if sending.codec == "none" else sending.codec,
        "acks": sending.acks,
        "enable_idempotence": sending.is_idempotent,
        "linger_ms": sending.linger_ms,
        "max_request_size": sending.largest_bytes,
    }


def _reading(servers: str, reading: Reading) -> dict[str, Any]:
    return {
        "bootstrap_servers": servers,
        "auto_offset_reset": reading.reset or "none",
        "isolation_level": "read_committed" if reading.is_committed_only else "read_uncommitted",
        "max_partition_fetch_bytes": reading.partition_bytes,
        "fetch_max_bytes": reading.total_bytes,
        "fetch_max_wait_ms": reading.wait_ms,
        "fetch_min_bytes": reading.min_bytes,
        "max_poll_records": 10_000,
    }


def _record(record: Sent) -> dict[str, Any]:
    return {
        "key": record.key,
        "value": record.value,
        "headers": list(record.headers),
        "partition": record.partition,
        "timestamp_ms": record.timestamp_ms,
    }


def _received(polled: Mapping[Any, Any]) -> list[Received]:
    return [
        Received(
            key=record.key,
            value=record.value,
            headers=tuple(record.headers),
            timestamp_ms=record.timestamp,
            is_append_time=record.timestamp_type == 1,
            partition=record.partition,
            offset=record.offset,
        )
        for records in polled.values()
        for record in records
    ]


class _Producer:
    def __init__(self, servers: str, sending: Sending) -> None:
        self._producer = kafka.KafkaProducer(
            **_sending(servers, sending),
            reconnect_backoff_max_ms=200,
            max_block_ms=sending.delivery_timeout_ms,
        )
        self._futures: list[Any] = []

    def send(self, topic: str, record: Sent) -> None:
        self._futures.append(self._producer.send(topic, **_record(record)))

    def finish(self) -> list[tuple[int, int]]:
        futures, self._futures = self._futures, []
        answers = [future.get(timeout=TIMEOUT_S) for future in futures]
        return [(answer.partition, answer.offset) for answer in answers]

    def close(self) -> None:
        self._producer.close(timeout=TIMEOUT_S)


class _Consumer:
    def __init__(self, servers: str, reading: Reading) -> None:
        self._consumer = kafka.KafkaConsumer(
            **_reading(servers, reading), reconnect_backoff_max_ms=200
        )

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        self._consumer.assign([kafka.TopicPartition(topic, number) for number in offsets])
        for number, offset in offsets.items():
            self.seek(topic, number, offset)

    def poll(self, wait_s: float) -> list[Received]:
        return _received(self._consumer.poll(timeout_ms=int(wait_s * 1_000)))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._consumer.seek(kafka.TopicPartition(topic, partition), offset)

    def pause(self, topic: str, partition: int) -> None:
        self._consumer.pause(kafka.TopicPartition(topic, partition))

    def resume(self, topic: str, partition: int) -> None:
        self._consumer.resume(kafka.TopicPartition(topic, partition))

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        place = kafka.TopicPartition(topic, partition)
        first = self._consumer.beginning_offsets([place], timeout_ms=_TIMEOUT_MS)[place]
        return first, self._consumer.end_offsets([place], timeout_ms=_TIMEOUT_MS)[place]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        place = kafka.TopicPartition(topic, partition)
        found = self._consumer.offsets_for_times({place: timestamp_ms}, timeout_ms=_TIMEOUT_MS)
        return None if found[place] is None else int(found[place].offset)

    def close(self) -> None:
        self._consumer.close()


class _AsyncProducer:
    def __init__(self, servers: str, sending: Sending) -> None:
        self._thread = LoopThread()
        self._futures: list[Any] = []

        async def start() -> Any:
            producer = aiokafka.AIOKafkaProducer(
                **_sending(servers, sending), request_timeout_ms=sending.delivery_timeout_ms
            )
            await producer.start()
            return producer

        self._producer = self._thread.do(start())

    def send(self, topic: str, record: Sent) -> None:
        self._futures.append(self._thread.do(self._producer.send(topic, **_record(record))))

    def finish(self) -> list[tuple[int, int]]:
        futures, self._futures = self._futures, []

        async def all_of_them() -> list[Any]:
            return await asyncio.gather(*futures)

        return [
            (-1, -1) if answer is None else (answer.partition, answer.offset)
            for answer in self._thread.do(all_of_them())
        ]

    def close(self) -> None:
        self._thread.do(self._producer.stop())
        self._thread.close()


class _AsyncConsumer:
    def __init__(self, servers: str, reading: Reading) -> None:
        self._thread = LoopThread()

        async def start() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(**_reading(servers, reading))
            await consumer.start()
            return consumer

        self._consumer = self._thread.do(start())

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        async def assign() -> None:
            self._consumer.assign([aiokafka.TopicPartition(topic, number) for number in offsets])
            for number, offset in offsets.items():
                self._consumer.seek(aiokafka.TopicPartition(topic, number), offset)

        self._thread.do(assign())

    def poll(self, wait_s: float) -> list[Received]:
        return _received(self._thread.do(self._consumer.getmany(timeout_ms=int(wait_s * 1_000))))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        async def seek() -> None:
            self._consumer.seek(aiokafka.TopicPartition(topic, partition), offset)

        self._thread.do(seek())

    def pause(self, topic: str, partition: int) -> None:
        async def pause() -> None:
            self._consumer.pause(aiokafka.TopicPartition(topic, partition))

        self._thread.do(pause())

    def resume(self, topic: str, partition: int) -> None:
        async def resume() -> None:
            self._consumer.resume(aiokafka.TopicPartition(topic, partition))

        self._thread.do(resume())

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        place = aiokafka.TopicPartition(topic, partition)
        first = self._thread.do(self._consumer.beginning_offsets([place]))[place]
        return first, self._thread.do(self._consumer.end_offsets([place]))[place]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        place = aiokafka.TopicPartition(topic, partition)
        found = self._thread.do(self._consumer.offsets_for_times({place: timestamp_ms}))
        return None if found[place] is None else int(found[place].offset)

    def close(self) -> None:
        self._thread.do(self._consumer.stop())
        self._thread.close()
