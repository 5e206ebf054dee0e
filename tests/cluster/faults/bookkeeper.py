"""A transactional producer that records the outcome of each transaction.

Note: the outcome may be unknown, if the producer is closed before its EndTxn is answered. Such a
transaction must be complete or absent.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.cluster.faults.guarantee_checks import Fate
from tests.cluster.faults.witnesses import IMPATIENT, Target, Witness

RECORDS_EACH: Final = 8
_PER_S: Final = 10
_ABORTED_EVERY: Final = 4
_ASK_S: Final = 10.0


class Bookkeeper(Witness):
    """Transactions over all partitions of a topic, every fourth of them aborted on purpose."""

    def __init__(self, target: Target, name: str) -> None:
        super().__init__()
        self._target = target
        self._name = name
        self.fates: dict[int, Fate] = {}
        self.given_up = 0

    @property
    def committed(self) -> list[int]:
        return [number for number, fate in self.fates.items() if fate is Fate.COMMITTED]

    def state(self) -> str:
        return f"after {len(self.fates)} transactions"

    def _live(self) -> None:
        producer = self._new_producer()
        number = 0
        while not self._ending.wait(1 / _PER_S):
            try:
                self.fates[number] = self._one(producer, number)
            except KafkaException:
                # It is fenced or has a fatal error. Its successor aborts what it has left open.
                self.fates.setdefault(number, Fate.UNKNOWN)
                self.given_up += 1
                producer = self._new_producer()
            number += 1

    def _new_producer(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._target.servers,
                "transactional.id": self._name,
                "transaction.timeout.ms": 20_000,
                "delivery.timeout.ms": 15_000,
                "request.timeout.ms": 5_000,
                "linger.ms": 1,
                **IMPATIENT,
            }
        )
        self._persist(lambda: producer.init_transactions(_ASK_S))
        return producer

    def _one(self, producer: Producer, number: int) -> Fate:
        producer.begin_transaction()
        try:
            for at in range(RECORDS_EACH):
                partition = (number + at) % self._target.partitions
                producer.produce(self._target.topic, b"%d" % number, partition=partition)
            producer.poll(0)
            if number % _ABORTED_EVERY:
                self._persist(lambda: producer.commit_transaction(_ASK_S))
                return Fate.COMMITTED
        except (KafkaException, BufferError) as error:
            if not _wants_abort(error):
                raise
        self._persist(lambda: producer.abort_transaction(_ASK_S))
        return Fate.ABORTED

    def _persist(self, ask: Callable[[], object]) -> None:
        """Retry until there is a response; the request is idempotent."""
        while True:
            try:
                ask()
            except KafkaException as error:
                if not _error_of(error).retriable():
                    raise
            else:
                return


def _error_of(error: KafkaException) -> KafkaError:
    (found,) = error.args
    assert isinstance(found, KafkaError)
    return found


def _wants_abort(error: Exception) -> bool:
    return isinstance(error, BufferError) or (
        isinstance(error, KafkaException) and _error_of(error).txn_requires_abort()
    )


def committed_records(
    target: Target, committed: Collection[int], patience_s: float
) -> Counter[int]:
    """Count the records of each transaction that a consumer gets, once it has all expected ones."""
    consumer = Consumer(
        {
            "bootstrap.servers": target.servers,
            "group.id": "auditor",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(target.topic, each, 0) for each in range(target.partitions)])
    found: Counter[int] = Counter()
    at_end: set[int | None] = set()
    until = time.monotonic() + patience_s
    # A commit is answered before its markers are written, so the end offset may be too low.
    while time.monotonic() < until and (
        len(at_end) < target.partitions or any(found[number] < RECORDS_EACH for number in committed)
    ):
        for message in consumer.consume(1_000, timeout=0.2):
            error = message.error()
            if error is None:
                found[int(message.value() or b"-1")] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
    consumer.close()
    return found
