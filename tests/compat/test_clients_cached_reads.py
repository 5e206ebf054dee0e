"""A foreign consumer of cold records, with a cache directory that may fail."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headwater.common.settings.setting_types import Value
from headwater.testing import EmbeddedBroker
from tests.compat.brokers import checked_broker, scrape
from tests.unit.storage.page_cache import need_cachestat

TIMEOUT_S = 60
RECORDS = 3_000
RECORD_BYTES = 2_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    need_cachestat(tmp_path)
    (tmp_path / "cache").mkdir()
    settings: dict[str, Value] = {
        "headwater.cache.dir": str(tmp_path / "cache"),
        "headwater.cache.min.reads": 1,
        "headwater.metrics.listener": "127.0.0.1:0",
        "log.segment.bytes": 2 << 20,
        "log.segment.delete.delay.ms": 0,
    }
    with checked_broker(settings, data_directory=str(tmp_path / "data")) as running:
        fill(running, "orders")
        yield running


def fill(broker: EmbeddedBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic, key=str(number), value=bytes([number % 251]) * RECORD_BYTES)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def make_cold(tmp_path: Path, topic: str) -> None:
    """Drop the log from the page cache."""
    for path in (tmp_path / "data" / f"{topic}-0").glob("*.log"):
        with path.open("rb+") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def consume_all(broker: EmbeddedBroker, tmp_path: Path, topic: str = "orders") -> None:
    """Read the cold topic and compare every record."""
    make_cold(tmp_path, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    received: list[tuple[bytes | str | None, bytes | str | None]] = []
    while len(received) < RECORDS:
        for message in consumer.consume(1_000, TIMEOUT_S):
            assert message.error() is None, message.error()
            received.append((message.key(), message.value()))
    consumer.close()
    assert received == [
        (str(number).encode(), bytes([number % 251]) * RECORD_BYTES) for number in range(RECORDS)
    ]


def test_cold_records_are_read_from_the_logs_disk_once(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    consume_all(broker, tmp_path)
    first = scrape(broker)
    log_bytes = first['kafka_log_log_size{topic="orders",partition="0"}']
    assert first["headwater_cache_available"] == 1
    assert first["headwater_cache_used_bytes"] > log_bytes / 2
    for _ in range(2):
        consume_all(broker, tmp_path)
    then = scrape(broker)
    from_disk = 'headwater_read_bytes_total{from="disk"}'
    # Where a consumer's fetches begin depends on its timing, so that a few ranges are new.
    assert then[from_disk] - first[from_disk] < log_bytes / 2
    assert then["headwater_cache_hit_bytes_total"] > log_bytes
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics(["orders"])["orders"].result(TIMEOUT_S)
    while scrape(broker)["headwater_cache_used_bytes"]:
        pass


def test_removed_cache_directory_is_logged_once_and_not_noticed_by_consumers(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    consume_all(broker, tmp_path)
    shutil.rmtree(tmp_path / "cache")
    fill(broker, "returns")
    for topic in ("orders", "returns", "orders", "returns"):
        consume_all(broker, tmp_path, topic)
    assert broker.log_text.count("Cache directory failed; consumers are served from the log") == 1
    assert scrape(broker)["headwater_cache_available"] == 0
