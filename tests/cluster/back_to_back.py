"""Run transactions back to back with confluent-kafka and with our own client.

Each transaction spreads small batches over all partitions and commits one offset of a group; the
next one begins as soon as the commit is answered.
"""

import uuid
from collections.abc import Callable
from typing import Final, Protocol

import confluent_kafka
from confluent_kafka import Consumer, KafkaException

from headwater.client import Producer, TopicPartition
from headwater.client.errors import KafkaError
from tests.cluster.cluster_clients import TIMEOUT_S

_SETTINGS: Final = {"linger.ms": 0, "batch.size": 64}
FAILURES: Final = (KafkaException, KafkaError)


class BackToBackProducer(Protocol):
    """A transactional producer."""

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, value: bytes) -> None: ...

    def send_offset(self, topic: str, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class ConfluentProducer:
    def __init__(self, servers: str, name: str) -> None:
        brokers = {"bootstrap.servers": servers}
        self._producer = confluent_kafka.Producer(
            {**brokers, **_SETTINGS, "transactional.id": name, "log_level": 0}
        )
        self._producer.init_transactions(TIMEOUT_S)
        self._consumer = Consumer({**brokers, "group.id": name})

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.produce(topic, value, partition=partition)

    def send_offset(self, topic: str, offset: int) -> None:
        place = confluent_kafka.TopicPartition(topic, 0, offset)
        group = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction([place], group, TIMEOUT_S)

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        self._consumer.close()


class HeadwaterProducer:
    def __init__(self, servers: str, name: str) -> None:
        self._group = name
        self._producer = Producer(
            {"bootstrap.servers": servers, **_SETTINGS, "transactional.id": name}
        )
        self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.send(topic, value, partition=partition)

    def send_offset(self, topic: str, offset: int) -> None:
        self._producer.send_offsets_to_transaction({TopicPartition(topic, 0): offset}, self._group)

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        self._producer.close(TIMEOUT_S)


PRODUCERS: Final[dict[str, Callable[[str, str], BackToBackProducer]]] = {
    "confluent-kafka": ConfluentProducer,
    "headwater": HeadwaterProducer,
}


def run_transactions(
    client: str, servers: str, topic: str, *, partitions: int, transactions: int, records: int
) -> list[str]:
    """Run them, and return an error for each failed transaction."""
    producer = PRODUCERS[client](servers, f"back-to-back-{uuid.uuid4().hex[:8]}")
    failures: list[str] = []
    try:
        for number in range(transactions):
            producer.begin()
            try:
                for record in range(records):
                    value = b"%d.%d" % (number, record)
                    producer.send(topic, (number + record) % partitions, value)
                producer.send_offset(topic, number + 1)
                producer.commit()
            except FAILURES as failure:
                failures.append(f"transaction {number}: {failure!r}")
                producer.abort()
    finally:
        producer.close()
    return failures
