"""Clients that keep running through all faults and record what they observe.

Each is a thread around a confluent-kafka client.

Note: they never give up. A record without a delivery report in the end is a violation, and so is a
consumer that does not reach the end.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.cluster.faults.guarantee_checks import Acknowledged, Observations, value_of

RECORDS_PER_S: Final = 300
"""Per producer."""

# The key of every record, so that segments fill up.
_WEIGHT: Final = b"k" * 300
_UNANSWERED_MAX: Final = 3_000
_TURN_S: Final = 0.02
_COMMIT_EVERY_S: Final = 1.0

# A broker that is paused, or whose link is cut, is given up after a while.
IMPATIENT: Final = {
    "socket.timeout.ms": 6_000,
    "reconnect.backoff.max.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 5_000,
    # librdkafka 2.16 was seen to hang for good when it fell back to its bootstrap servers during
    # OffsetForLeaderEpoch.
    "metadata.recovery.strategy": "none",
    "log_level": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    servers: str
    topic: str
    partitions: int


class Witness:
    """A thread that runs until it is told to finish."""

    def __init__(self) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.trouble: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def finish(self, patience_s: float) -> None:
        """Finish the remaining work, and wait for the thread."""
        self._ending.set()
        self._thread.join(patience_s)
        if self._thread.is_alive():
            self.trouble.append(f"{type(self).__name__} has not finished: {self.state()}")

    def state(self) -> str:
        return ""

    def _run(self) -> None:
        try:
            self._live()
        except Exception as error:  # noqa: BLE001, a witness that is gone proves nothing
            self.trouble.append(f"{type(self).__name__} has died: {error!r}")

    def _live(self) -> None:
        raise NotImplementedError


class Writer(Witness):
    """An idempotent producer with acks=all that writes to all partitions in turn."""

    def __init__(self, target: Target, number: int, observed: Observations) -> None:
        super().__init__()
        self._target = target
        self._number = number
        self._observed = observed
        self._unanswered = 0
        self.acknowledged = 0
        self.last_answer_s = time.monotonic()
        self.longest_stall_s = 0.0
        self._producer = Producer(
            {
                "bootstrap.servers": target.servers,
                "acks": "all",
                "enable.idempotence": True,
                # Never: it retries until it is answered.
                "delivery.timeout.ms": 0,
                "request.timeout.ms": 5_000,
                "linger.ms": 5,
                "retry.backoff.max.ms": 500,
                "compression.type": "lz4" if number % 2 else "none",
                **IMPATIENT,
            }
        )

    def state(self) -> str:
        return f"{self._unanswered} records are unanswered"

    def _live(self) -> None:
        number = 0
        began_s = time.monotonic()
        while not self._ending.is_set():
            due = int((time.monotonic() - began_s) * RECORDS_PER_S)
            if self._unanswered >= _UNANSWERED_MAX:
                # A record that could not be sent in time is not sent at all.
                began_s = time.monotonic() - number / RECORDS_PER_S
            while number < due and self._unanswered < _UNANSWERED_MAX:
                self._write(number)
                number += 1
            self._producer.poll(_TURN_S)
        while self._unanswered:
            self._producer.poll(_TURN_S)

    def _write(self, number: int) -> None:
        partition = number % self._target.partitions
        value = value_of(self._number, number)
        if not self._unanswered:
            self.last_answer_s = time.monotonic()
        self._unanswered += 1
        self._observed.sent.setdefault(partition, []).append(value)
        self._producer.produce(
            self._target.topic,
            value,
            key=_WEIGHT,
            partition=partition,
            on_delivery=self._delivered,
        )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._unanswered -= 1
        if error is not None:
            self.trouble.append(f"{message.value()!r} was refused: {error}")
            return
        now_s = time.monotonic()
        self.longest_stall_s = max(self.longest_stall_s, now_s - self.last_answer_s)
        self.last_answer_s = now_s
        self.acknowledged += 1
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        self._observed.acknowledged.append(
            Acknowledged(partition=partition, offset=offset, value=bytes(value or b""))
        )


class Tail(Witness):
    """A tailing consumer, read_uncommitted, that never goes back."""

    def __init__(self, target: Target, observed: Observations) -> None:
        super().__init__()
        self._target = target
        self._observed = observed
        self._next = dict.fromkeys(range(target.partitions), 0)
        self._ends: dict[int, int] = {}

    def finish_at(self, ends: dict[int, int], patience_s: float) -> None:
        self._ends = ends
        self.finish(patience_s)

    def state(self) -> str:
        return f"at {self._next} of {self._ends}"

    def _live(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._target.servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
                # A lost offset is what this test is about.
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                **IMPATIENT,
            }
        )
        topic = self._target.topic
        consumer.assign([TopicPartition(topic, each, 0) for each in self._next])
        while not (self._ending.is_set() and self._is_at_end()):
            for message in consumer.consume(500, timeout=0.1):
                self._take(message)
        consumer.close()

    def _is_at_end(self) -> bool:
        return all(self._next[each] >= end for each, end in self._ends.items())

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                self.trouble.append(f"the reader's offset has gone: {message.error()}")
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        if offset != self._next[partition]:
            wanted = self._next[partition]
            self.trouble.append(f"{offset} of {partition} came where {wanted} was next")
        self._next[partition] = offset + 1
        self._observed.seen.append((partition, offset, bytes(value or b"")))


class Member(Witness):
    """A group member that commits what it has processed."""

    def __init__(
        self, target: Target, group: str, observed: Observations, lock: threading.Lock
    ) -> None:
        super().__init__()
        self._target = target
        self._group = group
        self._observed = observed
        self._lock = lock
        self._all_done: Callable[[], bool] = lambda: False
        self.commits = 0
        self.failed_commits = 0

    def finish_when(self, all_done: Callable[[], bool], patience_s: float) -> None:
        self._all_done = all_done
        self.finish(patience_s)

    def _live(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._target.servers,
                "group.id": self._group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 8_000,
                "heartbeat.interval.ms": 1_000,
                **IMPATIENT,
            }
        )
        consumer.subscribe([self._target.topic])
        handled: dict[int, int] = {}
        committed_s = time.monotonic()
        while not (self._ending.is_set() and self._all_done()):
            self._handle(consumer.consume(500, timeout=0.1), handled)
            if handled and time.monotonic() > committed_s + _COMMIT_EVERY_S:
                self._commit(consumer, handled)
                handled.clear()
                committed_s = time.monotonic()
        consumer.close()

    def _handle(self, messages: Sequence[Message], handled: dict[int, int]) -> None:
        with self._lock:
            for message in messages:
                partition, offset = message.partition(), message.offset()
                if message.error() is not None or partition is None or offset is None:
                    continue
                self._observed.handled.add(bytes(message.value() or b""))
                handled[partition] = offset + 1

    def _commit(self, consumer: Consumer, handled: dict[int, int]) -> None:
        topic = self._target.topic
        offsets = [TopicPartition(topic, each, offset) for each, offset in handled.items()]
        try:
            answered = consumer.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException:
            # A rebalance, or no coordinator: the next owner processes some of it again.
            self.failed_commits += 1
            return
        self.commits += 1
        with self._lock:
            committed = self._observed.committed
            for each in answered:
                if each.error is None:
                    committed[each.partition] = max(committed.get(each.partition, 0), each.offset)
