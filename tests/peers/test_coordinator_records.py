"""Records of Apache Kafka's internal topics, decoded and encoded by Headwater.

Not one byte may differ after a round trip.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.coordinator.records.consumer_group_records import (
    ConsumerGroupMemberMetadataRecord,
)
from headwater.coordinator.records.record_serde import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    RecordSerde,
    UnknownRecord,
)
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from headwater.storage.io.os_disk import OsDisk
from headwater.storage.log.batch_walk import walk_batches
from tests.peers.apache_kafka import ApacheKafka

POLL_S = 0.5


@pytest.fixture(scope="module")
def kafka_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        produce_in_a_transaction(kafka)
        consume(kafka, "classic")
        consume(kafka, "consumer", "classic")
    return kafka.data


def produce_in_a_transaction(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "mover"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"one")
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce("orders", b"two")
    producer.abort_transaction(30)


def consume(kafka: ApacheKafka, *protocols: str) -> None:
    """Members join one group one after the other, with any protocol."""
    consumers = [
        Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": f"group-{protocols[0]}",
                "group.protocol": protocol,
                "group.instance.id": f"member-{number}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        for number, protocol in enumerate(protocols)
    ]
    for number, consumer in enumerate(consumers):
        consumer.subscribe(["orders"])
        while not consumer.assignment() and not consumers[0].assignment():
            consumer.poll(POLL_S)
        while number and not consumer.memberid():
            consumer.poll(POLL_S)
    consumers[0].commit(offsets=[TopicPartition("orders", 0, 1, "so far")], asynchronous=False)
    for consumer in consumers:
        consumer.close()


def records_of(data: Path, topic: str) -> Iterator[Record]:
    disk = OsDisk()
    for path in sorted(data.glob(f"{topic}-*/*.log")):
        file = disk.open(path)
        for batch in walk_batches(file, 0, file.size()):
            if not batch.header.is_control:
                yield from read_records(batch.content, batch.header)
        file.close()


@pytest.mark.parametrize(
    ("topic", "codec", "types"),
    [
        ("__consumer_offsets", GROUP_RECORDS, {1, 2, 3, 5, 6, 7, 8}),
        ("__transaction_state", TRANSACTION_RECORDS, {0}),
    ],
)
def test_kafkas_coordinator_records_round_trip(
    kafka_data: Path, topic: str, codec: RecordSerde, types: set[int]
) -> None:
    seen = set()
    for record in records_of(kafka_data, topic):
        assert record.key is not None
        seen.add(int.from_bytes(record.key[:2], "big"))
        decoded = codec.decode(record.key, record.value)
        assert not isinstance(decoded, UnknownRecord)
        assert codec.encode(decoded) == (record.key, record.value), decoded
    assert seen >= types


def test_records_include_a_classic_member_of_a_consumer_group(kafka_data: Path) -> None:
    """Otherwise the only nullable tagged struct would not be covered."""
    members = [
        member.value
        for record in records_of(kafka_data, "__consumer_offsets")
        if isinstance(
            member := GROUP_RECORDS.decode(record.key, record.value),
            ConsumerGroupMemberMetadataRecord,
        )
    ]
    assert {value.classic_member_metadata is None for value in members if value} == {True, False}
