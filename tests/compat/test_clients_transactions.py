"""Transactions of other producers: visible as a whole or not at all."""

import time
from contextlib import closing, suppress

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.compat.brokers import checked_broker
from tests.compat.clients import TIMEOUT_S, Reading
from tests.compat.judges import CONFLUENT
from tests.compat.topics import admin_of, create_topic
from tests.compat.transactional import (
    CLIENTS,
    Confluent,
    ConfluentProducer,
    TransactionalClient,
)

COMMITTED = Reading(is_committed_only=True)
EVERYTHING = Reading()


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> TransactionalClient:
    chosen: TransactionalClient = request.param
    return chosen


def read(servers: str, topic: str, count: int, reading: Reading = COMMITTED) -> list[bytes | None]:
    """Return the first records of partition 0."""
    values: list[bytes | None] = []
    until_s = time.monotonic() + TIMEOUT_S
    with closing(CONFLUENT.consumer(servers, reading)) as consumer:
        consumer.assign(topic, {0: 0})
        while len(values) < count:
            assert time.monotonic() < until_s, values
            values += [each.value for each in consumer.poll(0.1)]
    return values


def committed_offset(servers: str, topic: str, group_id: str) -> int:
    """Return a group's committed offset, once no transaction on it is pending."""
    admin: AdminClient = admin_of(servers)
    asked = ConsumerGroupTopicPartitions(group_id, [TopicPartition(topic, 0)])
    until_s = time.monotonic() + TIMEOUT_S
    while True:
        answer = admin.list_consumer_group_offsets([asked], require_stable=True)[group_id]
        (found,) = answer.result(TIMEOUT_S).topic_partitions
        if found.error is None or found.error.code() != KafkaError.UNSTABLE_OFFSET_COMMIT:
            break
        # Markers are in flight; a consumer would wait for them, this client does not.
        assert time.monotonic() < until_s, found
    assert found.error is None, found
    offset: int = found.offset
    return offset


def test_committed_records_are_visible_and_aborted_ones_are_not(
    client: TransactionalClient, servers: str, topic: str
) -> None:
    """TX-5, TX-16."""
    create_topic(servers, topic)
    with closing(client.open(servers, f"id-of-{topic}")) as producer:
        for number in range(4):
            producer.begin()
            for each in range(10):
                producer.send(topic, b"%d-%d" % (number, each))
            producer.flush()
            producer.abort() if number % 2 else producer.commit()
    expected = [b"%d-%d" % (number, each) for number in (0, 2) for each in range(10)]
    assert read(servers, topic, 20) == expected
    assert len(read(servers, topic, 40, EVERYTHING)) == 40


def test_open_transaction_holds_back_read_committed_consumers(
    client: TransactionalClient, servers: str, topic: str
) -> None:
    """LSO-1."""
    create_topic(servers, topic)
    with closing(client.open(servers, f"id-of-{topic}")) as producer:
        producer.begin()
        producer.send(topic, b"open")
        producer.flush()
        assert read(servers, topic, 1, EVERYTHING) == [b"open"]
        with closing(CONFLUENT.consumer(servers, COMMITTED)) as consumer:
            consumer.assign(topic, {0: 0})
            assert consumer.poll(0.3) == []
            producer.commit()
            seen: list[bytes | None] = []
            until_s = time.monotonic() + TIMEOUT_S
            while not seen:
                assert time.monotonic() < until_s
                seen += [each.value for each in consumer.poll(0.1)]
            assert seen == [b"open"]


def test_zombie_is_fenced(client: TransactionalClient, servers: str, topic: str) -> None:
    """TX-2: its open transaction is aborted, and its later writes are rejected."""
    create_topic(servers, topic)
    zombie = client.open(servers, f"id-of-{topic}")
    zombie.begin()
    zombie.send(topic, b"half a transaction")
    zombie.flush()
    with closing(client.open(servers, f"id-of-{topic}")) as successor:
        successor.begin()
        successor.send(topic, b"whole")
        successor.commit()
        with suppress(*client.fenced):
            zombie.send(topic, b"the other half")
        with pytest.raises(client.fenced):
            zombie.commit()
        assert read(servers, topic, 1) == [b"whole"]
    with suppress(*client.fenced):
        zombie.close()


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_transactional_offsets_are_committed_with_the_transaction(
    client: TransactionalClient, servers: str, topic: str, is_commit: bool
) -> None:
    """TX-11, TX-12."""
    create_topic(servers, topic)
    group_id = f"group-of-{topic}"
    with closing(client.open(servers, f"id-of-{topic}")) as producer:
        for offset in (5, 7):
            producer.begin()
            producer.send(topic, b"made of what was read")
            producer.send_offsets({(topic, 0): offset}, group_id)
            producer.commit() if is_commit or offset == 5 else producer.abort()
    assert committed_offset(servers, topic, group_id) == (7 if is_commit else 5)


def test_transaction_timeout_aborts_it(servers: str, topic: str) -> None:
    """TX-9: without any action of a client, and its producer is fenced."""
    create_topic(servers, topic)
    producer = Confluent().open(servers, f"id-of-{topic}", timeout_ms=5_000)
    producer.begin()
    producer.send(topic, b"too slow")
    producer.flush()
    with closing(Confluent().open(servers, f"other-of-{topic}")) as other:
        other.begin()
        other.send(topic, b"behind it")
        other.commit()
    assert read(servers, topic, 1) == [b"behind it"]
    with pytest.raises(Confluent.fenced):
        producer.commit()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_transaction_survives_a_restart_of_its_coordinator(topic: str, end: str) -> None:
    """The broker restarts in the middle of it, and the producer notices nothing."""
    with checked_broker() as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic)
        with closing(Confluent().open(servers, "x")) as producer:
            producer.begin()
            producer.send(topic, b"before")
            producer.send_offsets({(topic, 0): 3}, "g")
            producer.flush()
            broker.stop() if end == "stop" else broker.kill()
            broker.start()
            producer.send(topic, b"after")
            producer.commit()
            assert read(servers, topic, 2) == [b"before", b"after"]
            assert committed_offset(servers, topic, "g") == 3


def test_deleted_topic_does_not_block_a_transaction(topic: str) -> None:
    """TX-6: markers for deleted partitions are not waited for, and the id is free for the next."""
    with checked_broker() as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic)
        create_topic(servers, f"{topic}-2")
        with closing(Confluent().open(servers, "x")) as producer:
            producer.begin()
            producer.send(topic, b"lost")
            producer.send(f"{topic}-2", b"kept")
            producer.flush()
            admin = admin_of(servers)
            admin.delete_topics([topic])[topic].result(TIMEOUT_S)
            producer.commit()
            producer.begin()
            producer.send(f"{topic}-2", b"next")
            producer.commit()
        assert read(servers, f"{topic}-2", 2) == [b"kept", b"next"]


def test_group_member_continues_from_transactional_offsets(servers: str, topic: str) -> None:
    """KIP-447: the consumer's group metadata is sent with its offsets."""
    create_topic(servers, topic)
    create_topic(servers, f"{topic}-out")
    with closing(Confluent().open(servers, f"first-of-{topic}")) as source:
        source.begin()
        for number in range(10):
            source.send(topic, b"%d" % number)
        source.commit()
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": servers,
        "group.id": f"group-of-{topic}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    copier = ConfluentProducer(servers, f"id-of-{topic}", 60_000)
    for half in range(2):
        with closing(Consumer(settings)) as consumer:
            consumer.subscribe([topic])
            copier.begin()
            for _ in range(5):
                message = consumer.poll(TIMEOUT_S)
                assert message is not None
                value = message.value()
                assert value is not None
                copier.send(f"{topic}-out", value)
            place = TopicPartition(topic, 0, 5 * (half + 1))
            metadata = consumer.consumer_group_metadata()
            copier.producer.send_offsets_to_transaction([place], metadata, TIMEOUT_S)
            copier.commit()
    copier.close()
    assert read(servers, f"{topic}-out", 10) == [b"%d" % number for number in range(10)]
