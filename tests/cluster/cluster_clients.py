"""confluent-kafka clients for tests of a real cluster."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

TIMEOUT_S = 90


def await_true(what: Callable[[], bool]) -> None:
    """Poll a condition, for a long time."""
    until = time.monotonic() + TIMEOUT_S
    while not what():
        assert time.monotonic() < until, "it has not come about"


class Clients:
    """Clients of one cluster, with one list of bootstrap servers."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers})

    def new_topic(self, partitions: int = 3, factor: int = 3, **configs: str) -> str:
        """Create a topic with a unique name, and wait until every broker has it."""
        name = f"topic-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name, partitions, factor, config=settings)
        self.admin.create_topics([topic])[name].result(TIMEOUT_S)
        await_true(lambda: len(self.leaders(name)) == partitions)
        return name

    def leaders(self, topic: str) -> dict[int, int]:
        """Return the leaders by partition, without partitions that have none."""
        found = self.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        return {
            number: each.leader for number, each in found.partitions.items() if each.leader >= 0
        }

    def in_sync(self, topic: str) -> dict[int, list[int]]:
        found = self.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        return {number: sorted(each.isrs) for number, each in found.partitions.items()}

    def read(self, topic: str, partition: int, count: int) -> list[bytes]:
        """Return the first records of a partition."""
        consumer = Consumer(
            {"bootstrap.servers": self.servers, "group.id": "readers", "enable.auto.commit": False}
        )
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            found: list[bytes] = []
            until = time.monotonic() + TIMEOUT_S
            while len(found) < count and time.monotonic() < until:
                message = consumer.poll(1)
                if message is not None and message.error() is None:
                    found.append(bytes(message.value() or b""))
            return found
        finally:
            consumer.close()


class Writing:
    """A producer with acks=all, and the outcome of each of its records."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": True,
                "delivery.timeout.ms": TIMEOUT_S * 1_000,
                "linger.ms": 0,
                # A broker that is paused is given up after this.
                "socket.timeout.ms": 6_000,
                "request.timeout.ms": 5_000,
            }
        )
        self.failed: list[KafkaError] = []
        self.acknowledged: dict[int, list[bytes]] = {}

    def write(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.produce(topic, value, partition=partition, on_delivery=self._delivered)
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(TIMEOUT_S) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            of_partition = self.acknowledged.setdefault(message.partition() or 0, [])
            of_partition.append(bytes(message.value() or b""))


@contextmanager
def writing(servers: str) -> Iterator[Writing]:
    producer = Writing(servers)
    yield producer
    producer.flush()
