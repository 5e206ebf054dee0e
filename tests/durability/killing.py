"""Idempotent producer against a broker that is killed repeatedly, and the checks."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headwater.testing import EmbeddedBroker

TOPIC = "orders"
PARTITIONS = 3
TIMEOUT_S = 120.0
_IN_FLIGHT = 2_000


@dataclass
class Load:
    """Sent records, and the acknowledged ones."""

    producer: Producer
    sent: int = 0
    acknowledged: dict[tuple[int, int], int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def run_until(self, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_done():
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} of {self.sent} arrived"
            if self.sent - len(self.acknowledged) < _IN_FLIGHT:
                self._send()
                self.producer.poll(0)
            else:
                self.producer.poll(0.01)

    def finish(self) -> None:
        assert self.producer.flush(TIMEOUT_S) == 0

    def _send(self) -> None:
        number = self.sent
        self.producer.produce(
            TOPIC,
            # Long values, so that segments fill up.
            value=b"%0800d" % number,
            partition=number % PARTITIONS,
            on_delivery=self._delivered,
        )
        self.sent += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert value is not None
        self.acknowledged[partition, offset] = int(value)


def kill_again_and_again(broker: EmbeddedBroker, *, times: int, rng: random.Random) -> Load:
    """Produce to a broker that is killed several times."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT_S)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 1,
            "message.timeout.ms": int(TIMEOUT_S * 1_000),
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    load = Load(producer)
    for _ in range(times):
        target = len(load.acknowledged) + rng.randrange(500, 5_000)
        load.run_until(lambda target=target: len(load.acknowledged) >= target)  # type: ignore[misc]
        broker.kill()
        broker.restart()
    target = len(load.acknowledged) + 1_000
    load.run_until(lambda: len(load.acknowledged) >= target)
    load.finish()
    return load


def check_log(broker: EmbeddedBroker, load: Load) -> None:
    """Check that acknowledged records are at their offsets, once and in order."""
    assert load.failures == []
    assert len(load.acknowledged) == load.sent
    records = read_all(broker.bootstrap_servers, load.sent)
    assert records == load.acknowledged
    for partition in range(PARTITIONS):
        offsets = sorted(offset for number, offset in records if number == partition)
        assert offsets == list(range(len(offsets))), "a gap"
        values = [records[partition, offset] for offset in offsets]
        assert values == sorted(set(values)), "out of order, or twice"


def read_all(bootstrap_servers: str, count: int) -> dict[tuple[int, int], int]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused"})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    records: dict[tuple[int, int], int] = {}
    deadline = time.monotonic() + TIMEOUT_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records are there"
        for message in consumer.consume(10_000, 0.5):
            assert message.error() is None, message.error()
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert value is not None
            records[partition, offset] = int(value)
    return records
