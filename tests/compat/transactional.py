"""Transactional producers of other clients, and our own, behind one interface."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.compat.clients import TIMEOUT_S
from tests.compat.foreign import load
from tests.compat.headwater_transactional import Headwater
from tests.compat.loop_thread import LoopThread

aiokafka = load("aiokafka")
aiokafka_errors = load("aiokafka.errors")
kafka = load("kafka")
kafka_errors = load("kafka.errors")
kafka_structs = load("kafka.structs")

_TIMEOUT_MS: Final = int(TIMEOUT_S * 1_000)

Offsets = Mapping[tuple[str, int], int]


class Transactional(Protocol):
    """A producer with an initialised transactional id."""

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        """Send a record; `commit` reports errors."""
        ...

    def flush(self) -> None:
        """Wait until all records are acknowledged."""
        ...

    def send_offsets(self, offsets: Offsets, group_id: str) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class TransactionalClient(Protocol):
    """One client library."""

    name: str
    fenced: tuple[type[Exception], ...]
    """The error of a fenced producer."""

    def open(self, servers: str, transactional_id: str, timeout_ms: int = 60_000) -> Transactional:
        """Initialise the id, which fences its previous producer."""
        ...


class Confluent:
    name = "confluent-kafka"
    fenced: tuple[type[Exception], ...] = (KafkaException,)

    def open(self, servers: str, transactional_id: str, timeout_ms: int = 60_000) -> Transactional:
        return ConfluentProducer(servers, transactional_id, timeout_ms)


class ConfluentProducer:
    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        self._servers = servers
        self.producer = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "reconnect.backoff.max.ms": 200,
                # A new handle for its only broker would not know the group's coordinator.
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )
        self.producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self.producer.produce(topic, value, partition=partition)

    def flush(self) -> None:
        self.producer.flush(TIMEOUT_S)

    def send_offsets(self, offsets: Offsets, group_id: str) -> None:
        places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        with closing(
            Consumer({"bootstrap.servers": self._servers, "group.id": group_id})
        ) as consumer:
            metadata = consumer.consumer_group_metadata()
            self.producer.send_offsets_to_transaction(places, metadata, TIMEOUT_S)

    def commit(self) -> None:
        self.producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self.producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        """Drop it, since pending requests end with it."""
        del self.producer


class KafkaPython:
    name = "kafka-python"
    fenced: tuple[type[Exception], ...] = (kafka_errors.KafkaError,)

    def open(self, servers: str, transactional_id: str, timeout_ms: int = 60_000) -> Transactional:
        return _KafkaPythonProducer(servers, transactional_id, timeout_ms)


class _KafkaPythonProducer:
    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            max_block_ms=_TIMEOUT_MS,
            reconnect_backoff_max_ms=200,
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._producer.send(topic, value, partition=partition)

    def flush(self) -> None:
        self._producer.flush(timeout=TIMEOUT_S)

    def send_offsets(self, offsets: Offsets, group_id: str) -> None:
        places = {
            kafka.TopicPartition(*place): kafka_structs.OffsetAndMetadata(offset, "", -1)
            for place, offset in offsets.items()
        }
        self._producer.send_offsets_to_transaction(places, group_id)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=TIMEOUT_S)


class AioKafka:
    name = "aiokafka"
    fenced: tuple[type[Exception], ...] = (aiokafka_errors.KafkaError,)

    def open(self, servers: str, transactional_id: str, timeout_ms: int = 60_000) -> Transactional:
        return _AsyncProducer(servers, transactional_id, timeout_ms)


class _AsyncProducer:
    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        self._thread = LoopThread()

        async def start() -> Any:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=servers,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                request_timeout_ms=_TIMEOUT_MS,
            )
            await producer.start()
            return producer

        self._producer = self._thread.do(start())

    def begin(self) -> None:
        self._thread.do(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._thread.do(self._producer.send(topic, value, partition=partition))

    def flush(self) -> None:
        self._thread.do(self._producer.flush())

    def send_offsets(self, offsets: Offsets, group_id: str) -> None:
        places = {aiokafka.TopicPartition(*place): offset for place, offset in offsets.items()}
        self._thread.do(self._producer.send_offsets_to_transaction(places, group_id))

    def commit(self) -> None:
        self._thread.do(self._producer.commit_transaction())

    def abort(self) -> None:
        self._thread.do(self._producer.abort_transaction())

    def close(self) -> None:
        self._thread.do(self._producer.stop())
        self._thread.close()


CLIENTS: Final[tuple[TransactionalClient, ...]] = (
    Confluent(),
    KafkaPython(),
    AioKafka(),
    Headwater(),
)
