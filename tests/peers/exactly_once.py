"""Both ends of an exactly-once test: continuous input, and a read_committed consumer."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.peers.java_process import JavaProcess

# How long a cluster may take to go on after a broker or a client was killed.
TIMEOUT_S: Final = 240
_PAUSE_S: Final = 0.05


class Feed:
    """Call `write` with 0, 1, 2 and so on from a thread, some numbers at a time, until `stop`."""

    def __init__(self, write: Callable[[int], None], *, per_pause: int) -> None:
        self._write = write
        self._per_pause = per_pause
        self._ending = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        self._running: Future[None] | None = None
        self.written = 0

    def stop(self) -> int:
        """Stop writing; returns how many numbers were written."""
        assert self._running is not None, "it was not started"
        self._ending.set()
        self._running.result()
        return self.written

    def __enter__(self) -> Self:
        self._running = self._thread.submit(self._run)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.shutdown()

    def _run(self) -> None:
        while not self._ending.wait(_PAUSE_S):
            for _ in range(self._per_pause):
                self._write(self.written)
                self.written += 1


class AcknowledgedProducer:
    """An idempotent producer that survives the death of a broker and remembers every failure."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "delivery.timeout.ms": TIMEOUT_S * 1_000,
            }
        )
        self.failures: list[KafkaError] = []

    def send(self, topic: str, *, key: bytes | None = None, value: bytes, partition: int) -> None:
        self._producer.produce(topic, value, key, partition, on_delivery=self._delivered)
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(TIMEOUT_S) == 0
        assert self.failures == []

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failures.append(error)


class CommittedReader:
    """Reads all partitions of a topic from their start, with `read_committed`.

    It fails as soon as one of the processes that write the topic gives up.
    """

    def __init__(
        self, servers: str, topic: str, partitions: int, *, writers: Sequence[JavaProcess] = ()
    ) -> None:
        self._writers = writers
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
            }
        )
        self._places = [TopicPartition(topic, number, 0) for number in range(partitions)]
        self._consumer.assign(self._places)
        self.messages: list[Message] = []

    @property
    def values(self) -> list[bytes]:
        return [message.value() or b"" for message in self.messages]

    def read_until(self, is_enough: Callable[[], bool]) -> None:
        """Read until there is enough, or fail after a timeout."""
        until_s = time.monotonic() + TIMEOUT_S
        while not is_enough():
            for writer in self._writers:
                writer.check()
            if time.monotonic() > until_s:
                told = "\n".join(writer.logged_errors() for writer in self._writers)
                raise AssertionError(f"{len(self.messages)} committed records\n{told}")
            self._poll()

    def read_more(self, count: int) -> None:
        """Read everything that is committed now, and some records that are committed later."""
        self.read_to_end()
        wanted = len(self.messages) + count
        self.read_until(lambda: len(self.messages) >= wanted)

    def read_to_end(self) -> None:
        """Read everything that is committed now, to detect duplicates at the end."""
        ends = {place.partition: self._end_of(place) for place in self._places}
        self.read_until(lambda: all(at >= ends[each] for each, at in self._positions().items()))

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _poll(self) -> None:
        for message in self._consumer.consume(1_000, timeout=0.2):
            error = message.error()
            # What remains after its own retries is fatal, such as a record that is gone.
            assert error is None or error.retriable(), error
            if error is None:
                self.messages.append(message)

    def _end_of(self, place: TopicPartition) -> int:
        until_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                _, end = self._consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
            except KafkaException:
                # The broker that was asked has died; another one will lead.
                assert time.monotonic() < until_s, f"{place} has no leader"
            else:
                return end

    def _positions(self) -> dict[int, int]:
        return {at.partition: max(at.offset, 0) for at in self._consumer.position(self._places)}


def create_topic(servers: str, topic: str, partitions: int, replicas: int = 3) -> None:
    """Create a topic and wait until every partition has a leader."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(TIMEOUT_S)
    until_s = time.monotonic() + TIMEOUT_S
    while True:
        described = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        if len([each for each in described.values() if each.leader >= 0]) == partitions:
            return
        assert time.monotonic() < until_s, f"{topic} has no leaders"


def leader_of(servers: str, topic: str, partition: int) -> int:
    admin = AdminClient({"bootstrap.servers": servers})
    found = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    leader: int = found.partitions[partition].leader
    return leader
