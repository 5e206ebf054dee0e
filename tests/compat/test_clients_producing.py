"""Other producers: acks, batching, keys, idempotence, and errors."""

from contextlib import closing

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.testing import EmbeddedBroker
from tests.compat.brokers import checked_broker, requests_answered
from tests.compat.clients import TIMEOUT_S, Client, Sending, Sent, read, write
from tests.compat.judges import AIOKAFKA, CLIENTS, CONFLUENT, ERRORS, KAFKA_PYTHON, refusal_of
from tests.compat.topics import admin_of, create_topic


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_records_arrive_with_any_acks(servers: str, topic: str, client: Client, acks: int) -> None:
    """MIN-4."""
    create_topic(servers, topic)
    sent = [Sent(value=str(number).encode()) for number in range(20)]
    places = write(client, servers, topic, sent, Sending(acks=acks))
    received = read(client, servers, topic, len(sent))
    assert [each.value for each in received] == [each.value for each in sent]
    if acks:
        assert places == [(0, number) for number in range(20)]


def test_idempotent_producer_is_served(servers: str, topic: str, client: Client) -> None:
    create_topic(servers, topic, partitions=3)
    settings = Sending(is_idempotent=True, linger_ms=5)
    sent = [Sent(value=str(number).encode(), partition=number % 3) for number in range(900)]
    places = write(client, servers, topic, sent, settings)
    assert sorted(places) == [(partition, at) for partition in range(3) for at in range(300)]
    received = read(CONFLUENT, servers, topic, len(sent), partitions=range(3))
    found = {(each.partition, each.offset): each.value for each in received}
    assert found == dict(zip(places, (each.value for each in sent), strict=True))


def test_two_idempotent_producers_do_not_disturb_each_other(
    servers: str, topic: str, client: Client
) -> None:
    create_topic(servers, topic)
    settings = Sending(is_idempotent=True)
    with (
        closing(client.producer(servers, settings)) as one,
        closing(CONFLUENT.producer(servers, settings)) as other,
    ):
        for number in range(20):
            for producer in (one, other):
                producer.send(topic, Sent(value=b"v"))
                assert len(producer.finish()) == 1, number
    offsets = [each.offset for each in read(client, servers, topic, 40)]
    assert offsets == list(range(40))


def test_lingering_records_share_a_request(
    shared_broker: EmbeddedBroker, servers: str, topic: str, client: Client
) -> None:
    create_topic(servers, topic)
    with closing(client.producer(servers, Sending(linger_ms=500))) as producer:
        # librdkafka does not linger while it flushes, and would flush while it looks for the topic.
        producer.send(topic, Sent(value=b"the first one"))
        producer.finish()
        before = requests_answered(shared_broker, "Produce")
        for _ in range(1_000):
            producer.send(topic, Sent(value=b"a small one"))
        producer.finish()
    assert requests_answered(shared_broker, "Produce") - before <= 20


def test_equal_keys_share_a_partition_and_keep_their_order(
    servers: str, topic: str, client: Client
) -> None:
    create_topic(servers, topic, partitions=5)
    sent = [
        Sent(key=f"key {number % 20}".encode(), value=str(number).encode(), partition=None)
        for number in range(200)
    ]
    write(client, servers, topic, sent)
    received = read(client, servers, topic, len(sent), partitions=range(5))
    by_key: dict[bytes | None, list[int]] = {}
    homes: dict[bytes | None, set[int]] = {}
    for each in received:
        by_key.setdefault(each.key, []).append(int(each.value or b""))
        homes.setdefault(each.key, set()).add(each.partition)
    assert all(values == sorted(values) for values in by_key.values())
    assert all(len(partitions) == 1 for partitions in homes.values())
    assert len({each.partition for each in received}) > 1


def test_clients_with_the_same_partitioner_agree(servers: str, topic: str) -> None:
    create_topic(servers, topic, partitions=7)
    sent = [Sent(key=f"key {number}".encode(), partition=None) for number in range(50)]
    homes = [
        [partition for partition, _ in write(client, servers, topic, sent)]
        for client in (KAFKA_PYTHON, AIOKAFKA)
    ]
    assert homes[0] == homes[1]


def test_hundred_thousand_records_arrive_in_order(servers: str, topic: str) -> None:
    count = 100_000
    create_topic(servers, topic)
    sent = [Sent(value=b"%d" % number) for number in range(count)]
    write(CONFLUENT, servers, topic, sent, Sending(linger_ms=5, codec="lz4"))
    for reader in CLIENTS:
        received = read(reader, servers, topic, count)
        assert [each.offset for each in received] == list(range(count)), reader.name
        assert [int(each.value or b"") for each in received] == list(range(count)), reader.name


@pytest.mark.parametrize("acks", [1, -1])
def test_message_too_large_is_rejected(servers: str, topic: str, client: Client, acks: int) -> None:
    """PV-1. The client would have sent it, so the error is the broker's."""
    create_topic(servers, topic, {"max.message.bytes": "50000"})
    settings = Sending(largest_bytes=10_000_000, acks=acks)
    with closing(client.producer(servers, settings)) as producer:
        producer.send(topic, Sent(value=bytes(60_000)))
        assert refusal_of(producer.finish) == ErrorCode.MESSAGE_TOO_LARGE
        producer.send(topic, Sent(value=bytes(40_000)))
        assert producer.finish() == [(0, 0)]


def test_topic_is_not_auto_created_if_that_is_disabled(topic: str, client: Client) -> None:
    """TO-6, with auto.create.topics.enable=false."""
    with checked_broker({"auto.create.topics.enable": False}) as broker:
        servers = broker.bootstrap_servers
        with pytest.raises(ERRORS):
            write(client, servers, topic, [Sent(value=b"v")], Sending(delivery_timeout_ms=1_500))
        assert topic not in admin_of(servers).list_topics(timeout=TIMEOUT_S).topics
        create_topic(servers, topic)
        assert write(client, servers, topic, [Sent(value=b"v")]) == [(0, 0)]


def test_topic_is_auto_created_if_that_is_enabled(servers: str, topic: str, client: Client) -> None:
    """TO-6. It has the broker's default number of partitions."""
    assert write(client, servers, topic, [Sent(value=b"v")]) == [(0, 0)]
    found = admin_of(servers).list_topics(timeout=TIMEOUT_S).topics[topic]
    assert list(found.partitions) == [0]
