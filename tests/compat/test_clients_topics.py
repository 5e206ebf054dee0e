"""Other admin clients and topics: created, listed, grown, emptied, deleted, re-created."""

from collections.abc import Callable
from contextlib import closing, suppress

import pytest

from headwater.common.error_codes import ErrorCode
from tests.compat.admins import ADMINS, ConfluentAdmin, OpenAdmin
from tests.compat.brokers import checked_broker
from tests.compat.clients import (
    Client,
    Deadline,
    Reading,
    Received,
    Sending,
    Sent,
    read,
    take,
    write,
)
from tests.compat.judges import CONFLUENT, ERRORS, refusal_of
from tests.compat.topics import create_topic


def numbered(count: int) -> list[Sent]:
    return [Sent(value=str(number).encode()) for number in range(count)]


def recreate(admin: OpenAdmin, topic: str) -> None:
    admin.delete([topic])
    # A client that requests the topic just then may have auto-created it.
    with suppress(*ERRORS):
        admin.create([topic])


def _wait(is_met: Callable[[], bool], what: str) -> None:
    """Wait for a change: brokers of Apache Kafka, which run the same tests, apply it later."""
    deadline = Deadline(what)
    while not is_met():
        deadline.check()


def test_topic_is_created_listed_described_and_deleted(topic: str, admin: OpenAdmin) -> None:
    assert topic not in admin.names()
    admin.create([topic], partitions=3)
    _wait(lambda: topic in admin.names(), "the topic's creation")
    assert admin.partition_count(topic) == 3
    admin.delete([topic])
    _wait(lambda: topic not in admin.names(), "the topic's deletion")


def test_topic_cannot_be_created_twice(topic: str, admin: OpenAdmin) -> None:
    admin.create([topic])
    assert refusal_of(lambda: admin.create([topic])) == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("name", "partitions", "config", "code"),
    [
        ("no blanks", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("fine", 0, {}, ErrorCode.INVALID_PARTITIONS),
        ("fine", 1, {"retention.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ("fine", 1, {"retention.msec": "1"}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_invalid_topic_is_rejected(
    admin: OpenAdmin, name: str, partitions: int, config: dict[str, str], code: ErrorCode
) -> None:
    """TO-1, TO-2."""
    if isinstance(admin, ConfluentAdmin) and (not name or not partitions):
        pytest.skip("librdkafka does not even ask")
    assert refusal_of(lambda: admin.create([name], partitions=partitions, config=config)) == code
    assert name not in admin.names()


def test_missing_topic_is_unknown(topic: str, admin: OpenAdmin) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal_of(lambda: admin.delete([topic])) == unknown
    assert refusal_of(lambda: admin.grow(topic, 3)) == unknown


def test_topic_grows_and_its_new_partitions_are_served(
    servers: str, topic: str, admin: OpenAdmin
) -> None:
    """TO-5."""
    admin.create([topic], partitions=1)
    write(CONFLUENT, servers, topic, numbered(3))
    admin.grow(topic, 4)
    _wait(lambda: admin.partition_count(topic) == 4, "new partitions")
    assert write(CONFLUENT, servers, topic, [Sent(value=b"new", partition=3)]) == [(3, 0)]
    assert len(read(CONFLUENT, servers, topic, 3)) == 3
    assert refusal_of(lambda: admin.grow(topic, 2)) == ErrorCode.INVALID_PARTITIONS


def test_deleted_records_are_gone_for_all_consumers(
    servers: str, topic: str, client: Client
) -> None:
    """DR-1, HW-7."""
    write(client, servers, topic, numbered(10))
    for kind in ADMINS:
        with closing(kind(servers)) as admin:
            assert admin.delete_records(topic, 0, 4) == 4, kind.name
    with closing(client.consumer(servers, Reading(reset="earliest"))) as consumer:
        assert consumer.bounds(topic, 0) == (4, 10)
        consumer.assign(topic, {0: 0})
        assert [each.offset for each in take(consumer, 6)] == [4, 5, 6, 7, 8, 9]


def test_all_records_can_be_deleted(servers: str, topic: str, admin: OpenAdmin) -> None:
    """DR-1: -1 is the high watermark."""
    write(CONFLUENT, servers, topic, numbered(10))
    assert admin.delete_records(topic, 0, -1) == 10
    assert write(CONFLUENT, servers, topic, numbered(1)) == [(0, 10)]


def test_topic_deleted_while_it_is_read_causes_an_error_or_nothing(
    servers: str, topic: str, client: Client
) -> None:
    """That depends on the client; the broker and other topics keep working."""
    create_topic(servers, topic)
    write(client, servers, topic, numbered(5))
    with (
        closing(client.consumer(servers, Reading(wait_ms=500))) as consumer,
        closing(ConfluentAdmin(servers)) as admin,
    ):
        consumer.assign(topic, {0: 0})
        take(consumer, 5)
        admin.delete([topic])
        with suppress(*ERRORS):
            assert consumer.poll(1.5) == []
        other = f"{topic}-other"
        write(client, servers, other, numbered(5))
        assert len(read(client, servers, other, 5)) == 5


def test_recreated_topic_is_empty_and_accepts_records(
    servers: str, topic: str, client: Client
) -> None:
    """TI-1. The producer still has metadata of the first one, including its id."""
    with (
        closing(ConfluentAdmin(servers)) as admin,
        closing(client.producer(servers, Sending())) as producer,
    ):
        admin.create([topic])
        for number in range(3):
            producer.send(topic, Sent(value=b"old"))
            assert producer.finish() == [(0, number)]
        recreate(admin, topic)
        producer.send(topic, Sent(value=b"new"))
        assert producer.finish() == [(0, 0)]
        assert [each.value for each in read(client, servers, topic, 1)] == [b"new"]


def test_deleted_topic_is_auto_created_again(servers: str, topic: str, client: Client) -> None:
    """It is unknown in the first response, as in Kafka, and the client retries."""
    create_topic(servers, topic)
    write(client, servers, topic, numbered(5))
    with closing(ConfluentAdmin(servers)) as admin:
        admin.delete([topic])
    assert write(client, servers, topic, numbered(1)) == [(0, 0)]
    assert [each.value for each in read(client, servers, topic, 1)] == [b"0"]


def test_consumer_continues_in_the_recreated_topic(
    servers: str, topic: str, client: Client
) -> None:
    """TI-1. It may know the first one by id, and its offset is out of range in the second.

    A client that fetches by name gets the diverging epoch (EP-5), and continues from there.
    """
    with (
        closing(ConfluentAdmin(servers)) as admin,
        closing(client.consumer(servers, Reading(reset="earliest"))) as consumer,
    ):
        admin.create([topic])
        write(CONFLUENT, servers, topic, [Sent(value=b"old")] * 5)
        consumer.assign(topic, {0: 0})
        take(consumer, 5)
        recreate(admin, topic)
        deadline = Deadline("a record of the new topic")
        received: list[Received] = []
        while not received:
            deadline.check()
            write(CONFLUENT, servers, topic, [Sent(value=b"new")])
            # An unknown topic may be an error once; a metadata refresh resolves it.
            with suppress(*ERRORS):
                received = consumer.poll(0.2)
        assert received[0].value == b"new"


def test_ten_thousand_topics_are_created_and_every_client_lists_them() -> None:
    names = [f"many.{number:05}" for number in range(10_000)]
    with checked_broker() as broker:
        with closing(ConfluentAdmin(broker.bootstrap_servers)) as admin:
            for begin in range(0, len(names), 2_500):
                admin.create(names[begin : begin + 2_500])
        for kind in ADMINS:
            with closing(kind(broker.bootstrap_servers)) as admin:
                assert sorted(admin.names()) == names, kind.name
                assert admin.partition_count(names[5_000]) == 1
        assert write(CONFLUENT, broker.bootstrap_servers, names[-1], numbered(1)) == [(0, 0)]
