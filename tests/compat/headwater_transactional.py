"""Our own transactional producer, behind the interface of `transactional`."""

from collections.abc import Mapping

from headwater.client import Producer, TopicPartition
from headwater.client.errors import KafkaError
from tests.compat.clients import TIMEOUT_S


class Headwater:
    name = "headwater"
    fenced: tuple[type[Exception], ...] = (KafkaError,)

    def open(
        self, servers: str, transactional_id: str, timeout_ms: int = 60_000
    ) -> "HeadwaterProducer":
        return HeadwaterProducer(servers, transactional_id, timeout_ms)


class HeadwaterProducer:
    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._producer.send(topic, value, partition=partition)

    def flush(self) -> None:
        self._producer.flush(TIMEOUT_S)

    def send_offsets(self, offsets: Mapping[tuple[str, int], int], group_id: str) -> None:
        places = {TopicPartition(*place): offset for place, offset in offsets.items()}
        self._producer.send_offsets_to_transaction(places, group_id)

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        self._producer.close(TIMEOUT_S)
