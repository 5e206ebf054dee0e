"""Headwater's producer with Apache Kafka: records, tables and transactions."""

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa
import pytest
from confluent_kafka import Consumer
from confluent_kafka import Producer as ForeignProducer
from confluent_kafka import TopicPartition as ForeignPartition

from headwater.client import Producer, TopicPartition, aio
from headwater.client.errors import KafkaError, ProducerFenced
from headwater.client.producer.transactions.transaction_manager import TransactionManager
from tests.compat.clients import Reading, read
from tests.compat.judges import CONFLUENT
from tests.compat.topics import create_topic
from tests.peers.apache_kafka import ApacheKafka, run_class
from tests.peers.jars import KAFKA_4_1

TIMEOUT_S = 60.0


@pytest.fixture
def servers(apache_kafka: ApacheKafka) -> str:
    return apache_kafka.bootstrap_servers


@pytest.fixture
def first_version(servers: str) -> Iterator[None]:
    """Transactions v1, as before KIP-890, for one test."""
    set_transaction_version(servers, "downgrade", 0)
    yield
    set_transaction_version(servers, "upgrade", 2)


def set_transaction_version(servers: str, direction: str, level: int) -> None:
    run_class(
        KAFKA_4_1,
        "org.apache.kafka.tools.FeatureCommand",
        "--bootstrap-server",
        servers,
        direction,
        "--feature",
        f"transaction.version={level}",
    )


@pytest.fixture
def topic(servers: str) -> str:
    name = f"own-{uuid.uuid4().hex[:8]}"
    create_topic(servers, name, partitions=2)
    return name


def committed(servers: str, topic: str, count: int) -> list[bytes]:
    reading = Reading(is_committed_only=True)
    found = read(CONFLUENT, servers, topic, count, partitions=(0, 1), reading=reading)
    return sorted(each.value or b"" for each in found)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_are_stored_and_read_by_others(
    servers: str, topic: str, codec: str
) -> None:
    with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        futures = [
            producer.send(topic, b"%d" % number * 20, key=b"k", partition=0, headers={"h": b"1"})
            for number in range(500)
        ]
        assert [each.result(TIMEOUT_S).offset for each in futures] == list(range(500))
    found = read(CONFLUENT, servers, topic, 500)
    assert [each.value for each in found] == [b"%d" % number * 20 for number in range(500)]
    assert {(each.key, each.headers) for each in found} == {(b"k", (("h", b"1"),))}


def test_keys_map_to_the_partitions_of_librdkafka(servers: str, topic: str) -> None:
    keys = [b"%d" % number for number in range(50)]
    foreign = foreign_partitions(servers, topic, keys)
    with Producer(bootstrap_servers=servers) as producer:
        own = [producer.send(topic, b"", key=key) for key in keys]
        assert [each.result(TIMEOUT_S).partition for each in own] == foreign


def foreign_partitions(servers: str, topic: str, keys: Sequence[bytes]) -> list[int]:
    """The partitions of keys in librdkafka with Java's partitioner."""
    found: dict[bytes | None, int | None] = {}
    producer = ForeignProducer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(
            topic,
            b"",
            key,
            on_delivery=lambda _, sent: found.update({sent.key(): sent.partition()}),
        )
    producer.flush(TIMEOUT_S)
    return [found[key] or 0 for key in keys]


def test_table_is_sent_row_by_row(servers: str, topic: str) -> None:
    table = pa.table(
        {
            "value": [b"%d" % number for number in range(5_000)],
            "partition": [number % 2 for number in range(5_000)],
        }
    )
    with Producer(bootstrap_servers=servers, compression_type="zstd") as producer:
        batches = producer.send_table(topic, table).result(TIMEOUT_S)
    assert sum(batch.row_count for batch in batches) == 5_000
    found = read(CONFLUENT, servers, topic, 5_000, partitions=(0, 1))
    assert sorted(int(each.value or b"") for each in found) == list(range(5_000))


def test_asyncio_producer_works_as_well(servers: str, topic: str) -> None:
    async def run() -> list[int]:
        async with aio.Producer(bootstrap_servers=servers) as producer:
            futures = [await producer.send(topic, b"x", partition=1) for _ in range(100)]
            return [(await each).offset for each in futures]

    assert asyncio.run(run()) == list(range(100))


def test_committed_transactions_are_visible_and_aborted_ones_are_not(
    servers: str, topic: str
) -> None:
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions(TIMEOUT_S)
        for number in range(10):
            producer.begin_transaction()
            producer.send(topic, b"%d a" % number, partition=0)
            producer.send(topic, b"%d b" % number, partition=1)
            if number % 2:
                producer.flush(TIMEOUT_S)
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)
        transactions = producer._engine.transactions
        assert isinstance(transactions, TransactionManager)
        # Kafka 4.1 has the second version of transactions: every end raises the epoch.
        assert transactions.identity.epoch == 10
    expected = [b"%d %s" % (number, side) for number in range(0, 10, 2) for side in (b"a", b"b")]
    assert committed(servers, topic, 10) == sorted(expected)


@pytest.mark.usefixtures("first_version")
def test_transactions_v1_are_supported_too(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions(TIMEOUT_S)
        for number, end in enumerate((producer.commit_transaction, producer.abort_transaction) * 2):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number, partition=number % 2)
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): number}, topic)
            producer.flush(TIMEOUT_S)
            end(TIMEOUT_S)
        transactions = producer._engine.transactions
        assert isinstance(transactions, TransactionManager)
        # The epoch stays: the coordinator of this version raises it for a new producer only.
        assert transactions.identity.epoch == 0
    assert committed(servers, topic, 2) == [b"0", b"2"]


def test_offsets_are_only_committed_with_the_transaction(servers: str, topic: str) -> None:
    with (
        Producer(bootstrap_servers=servers, transactional_id=topic) as producer,
        closing(Consumer({"bootstrap.servers": servers, "group.id": topic})) as consumer,
    ):
        producer.init_transactions(TIMEOUT_S)
        for offset, end in ((5, producer.commit_transaction), (9, producer.abort_transaction)):
            producer.begin_transaction()
            producer.send(topic, b"x", partition=0)
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): offset}, topic)
            end(TIMEOUT_S)
        (found,) = consumer.committed([ForeignPartition(topic, 0)], timeout=TIMEOUT_S)
        assert found.offset == 5


def test_newer_producer_fences_the_older(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers, transactional_id=topic) as old:
        old.init_transactions(TIMEOUT_S)
        old.begin_transaction()
        old.send(topic, b"old", partition=0)
        old.flush(TIMEOUT_S)
        with Producer(bootstrap_servers=servers, transactional_id=topic) as new:
            new.init_transactions(TIMEOUT_S)
            with pytest.raises(ProducerFenced):
                old.commit_transaction(TIMEOUT_S)
            with pytest.raises(ProducerFenced):
                old.send(topic, b"zombie", partition=0)
            new.begin_transaction()
            new.send(topic, b"new", partition=0)
            new.commit_transaction(TIMEOUT_S)
    assert committed(servers, topic, 1) == [b"new"]


def test_transaction_with_a_failed_record_can_be_aborted_and_the_next_one_commits(
    servers: str, topic: str
) -> None:
    settings = {"bootstrap.servers": servers, "transactional.id": topic}
    with Producer({**settings, "max.request.size": 3_000_000}) as producer:
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.send(topic, b"fine", partition=0)
        # More than the broker's message.max.bytes, in one record that cannot be split.
        producer.send(topic, bytes(2_000_000), partition=0)
        with pytest.raises(KafkaError):
            producer.commit_transaction(TIMEOUT_S)
        producer.abort_transaction(TIMEOUT_S)
        producer.begin_transaction()
        producer.send(topic, b"good", partition=0)
        producer.commit_transaction(TIMEOUT_S)
    assert committed(servers, topic, 1) == [b"good"]
