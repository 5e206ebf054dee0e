"""Headwater takes over a directory that Apache Kafka left with open transactions."""

import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.testing import EmbeddedBroker
from tests.peers.apache_kafka import NODE_ID, ApacheKafka

TIMEOUT_S = 60


def producer_of(servers: str, transactional_id: str, timeout_ms: int = 60_000) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def committed(servers: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("orders", 0, 0)])
    values: list[bytes | None] = []
    until_s = time.monotonic() + TIMEOUT_S
    while len(values) < count:
        assert time.monotonic() < until_s, values
        values += [each.value() for each in consumer.consume(100, 0.2) if each.error() is None]
    return values


def test_open_transactions_of_kafka_are_aborted_and_their_ids_stay_usable(tmp_path: Path) -> None:
    """TX-9: open transactions end by their timeout or by the next producer."""
    with ApacheKafka(tmp_path) as kafka:
        servers = kafka.bootstrap_servers
        done = producer_of(servers, "done")
        done.begin_transaction()
        done.produce("orders", b"committed at Kafka", partition=0)
        done.commit_transaction(TIMEOUT_S)
        left = [producer_of(servers, "slow", 2_000), producer_of(servers, "crashed")]
        for producer in left:
            producer.begin_transaction()
            producer.produce("orders", b"left open", partition=0)
            producer.flush(TIMEOUT_S)
        kafka.stop()
        del done, left
    settings = {"node.id": NODE_ID}
    with EmbeddedBroker(settings, data_directory=kafka.data) as broker:
        servers = broker.bootstrap_servers
        successor = producer_of(servers, "crashed")
        successor.begin_transaction()
        successor.produce("orders", b"committed here", partition=0)
        successor.commit_transaction(TIMEOUT_S)
        assert committed(servers, 2) == [b"committed at Kafka", b"committed here"]
        assert "Traceback" not in broker.log_text, broker.log_text
