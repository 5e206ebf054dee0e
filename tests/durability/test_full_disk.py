"""A full disk: records that do not fit are rejected, acknowledged ones stay.

The disk is full for one process only, by its limit on file sizes. For the broker that is the same:
a write fails, perhaps partly.
"""

import os
import resource
import select
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from headwater.cli.log.dump import dump_path
from headwater.testing import EmbeddedBroker
from tests.durability.killing import PARTITIONS, TIMEOUT_S, TOPIC, read_all

# Inside a batch, so that the last write is partial.
LIMIT_BYTES = 1_000_007


class Filling:
    """Sends records of 4,000 bytes, and collects the acknowledgements."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.errors: list[int] = []
        self._sent = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "acks": 1, "retries": 0, "log_level": 0}
        )

    def send(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(
                TOPIC,
                value=b"%04000d" % self._sent,
                partition=self._sent % PARTITIONS,
                on_delivery=self._delivered,
            )
            self._sent += 1
        assert self._producer.flush(TIMEOUT_S) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error.code())
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert value is not None
        self.acknowledged[partition, offset] = int(value)


def test_full_disk_rejects_writes_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """RC-5. There is only one log directory, so the broker stops by itself."""
    with EmbeddedBroker({"num.partitions": PARTITIONS}, data_directory=tmp_path) as broker:
        filling = Filling(broker.bootstrap_servers)
        filling.send(PARTITIONS)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))
        while not filling.errors:
            filling.send(20)
        assert KafkaError.KAFKA_STORAGE_ERROR in filling.errors
        await_end(broker.pid)
        assert "no log directory is left" in broker.log_text
        broker.restart()
        found = read_all(broker.bootstrap_servers, record_count(broker.bootstrap_servers))
        assert found.items() >= filling.acknowledged.items()
        again = Filling(broker.bootstrap_servers)
        again.send(PARTITIONS)
        assert not again.errors
    for number in range(PARTITIONS):
        folder = tmp_path / f"{TOPIC}-{number}"
        assert dump_path(folder, as_json=True, with_records=False, limit=None) == 0


def record_count(bootstrap_servers: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused"})
    ends = (
        consumer.get_watermark_offsets(TopicPartition(TOPIC, number), timeout=TIMEOUT_S)
        for number in range(PARTITIONS)
    )
    total = sum(end for _, end in (each or (0, 0) for each in ends))
    consumer.close()
    return total


def await_end(pid: int) -> None:
    descriptor = os.pidfd_open(pid)
    try:
        assert select.select((descriptor,), (), (), TIMEOUT_S)[0], "the broker goes on"
    finally:
        os.close(descriptor)
