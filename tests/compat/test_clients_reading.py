"""Other consumers with assigned partitions: offsets, seeking, waiting, fairness."""

from contextlib import closing

import pytest

from headwater.testing import EmbeddedBroker
from tests.compat.brokers import requests_answered
from tests.compat.clients import Client, Deadline, Reading, Received, Sending, Sent, take, write
from tests.compat.judges import CONFLUENT, ERRORS
from tests.compat.topics import create_topic

# Longer than a test would wait: what arrives has not waited for the timeout.
LONG_MS = 25_000
TIMEOUT_S = 20


def numbered(count: int, partition: int = 0) -> list[Sent]:
    return [Sent(value=str(number).encode(), partition=partition) for number in range(count)]


def test_beginning_and_end_offsets(servers: str, topic: str, client: Client) -> None:
    create_topic(servers, topic, partitions=2)
    write(client, servers, topic, numbered(7, partition=1))
    with closing(client.consumer(servers, Reading())) as consumer:
        assert consumer.bounds(topic, 0) == (0, 0)
        assert consumer.bounds(topic, 1) == (0, 7)


def test_offset_is_found_by_timestamp(servers: str, topic: str, client: Client) -> None:
    times_ms = [1_000, 2_000, 2_000, 5_000, 4_000]
    write(client, servers, topic, [Sent(value=b"v", timestamp_ms=each) for each in times_ms])
    with closing(client.consumer(servers, Reading())) as consumer:
        asked_ms = [0, 1_000, 1_001, 2_001, 4_001, 5_000, 5_001]
        found = [consumer.offset_at(topic, 0, each) for each in asked_ms]
    assert found == [0, 0, 1, 3, 3, 3, None]


def test_consumer_continues_where_it_seeks(servers: str, topic: str, client: Client) -> None:
    write(client, servers, topic, numbered(10))
    with closing(client.consumer(servers, Reading())) as consumer:
        consumer.assign(topic, {0: 8})
        assert [each.offset for each in take(consumer, 2)] == [8, 9]
        consumer.seek(topic, 0, 3)
        assert [each.offset for each in take(consumer, 7)] == [3, 4, 5, 6, 7, 8, 9]
        consumer.seek(topic, 0, 10)
        assert consumer.poll(0.3) == []
        write(client, servers, topic, numbered(1))
        assert [each.offset for each in take(consumer, 1)] == [10]


def test_paused_partition_returns_nothing_until_it_is_resumed(
    servers: str, topic: str, client: Client
) -> None:
    create_topic(servers, topic, partitions=2)
    write(client, servers, topic, numbered(3, partition=0) + numbered(3, partition=1))
    with closing(client.consumer(servers, Reading())) as consumer:
        consumer.assign(topic, {0: 0, 1: 0})
        consumer.pause(topic, 1)
        assert [each.partition for each in take(consumer, 3)] == [0, 0, 0]
        assert consumer.poll(0.3) == []
        consumer.resume(topic, 1)
        assert [each.partition for each in take(consumer, 3)] == [1, 1, 1]


def test_out_of_range_consumer_resets_to_earliest(servers: str, topic: str, client: Client) -> None:
    """HW-7, with auto.offset.reset=earliest."""
    write(client, servers, topic, numbered(5))
    with closing(client.consumer(servers, Reading(reset="earliest"))) as consumer:
        consumer.assign(topic, {0: 1_000})
        assert [each.offset for each in take(consumer, 5)] == [0, 1, 2, 3, 4]


def test_out_of_range_consumer_resets_to_latest(servers: str, topic: str, client: Client) -> None:
    """HW-7, with auto.offset.reset=latest."""
    write(client, servers, topic, numbered(5))
    with closing(client.consumer(servers, Reading(reset="latest"))) as consumer:
        consumer.assign(topic, {0: 1_000})
        received = consumer.poll(0.5)
        deadline = Deadline("a record behind the end")
        while not received:
            deadline.check()
            # When it has found the end is up to the client; only later records matter.
            write(CONFLUENT, servers, topic, numbered(1))
            received = consumer.poll(0.2)
        assert received[0].offset >= 5


def test_out_of_range_consumer_without_reset_gets_an_error(
    servers: str, topic: str, client: Client
) -> None:
    """HW-7."""
    write(client, servers, topic, numbered(5))
    with closing(client.consumer(servers, Reading())) as consumer:
        consumer.assign(topic, {0: 1_000})
        with pytest.raises(ERRORS):
            take(consumer, 1)


def test_delayed_fetch_gets_a_record_at_once_without_further_requests(
    shared_broker: EmbeddedBroker, servers: str, topic: str, client: Client
) -> None:
    create_topic(servers, topic)
    with closing(client.consumer(servers, Reading(wait_ms=LONG_MS))) as consumer:
        consumer.assign(topic, {0: 0})
        # By then the client has sent its initial requests.
        assert consumer.poll(0.5) == []
        before = requests_answered(shared_broker, "Fetch")
        assert consumer.poll(1.0) == []
        # A polling client would have sent many; a few may be in flight.
        assert requests_answered(shared_broker, "Fetch") <= before + 3
        write(client, servers, topic, numbered(1))
        deadline = Deadline("the record", TIMEOUT_S)
        while not consumer.poll(0.2):
            deadline.check()


def test_consumer_with_fetch_min_bytes_waits_for_them(
    servers: str, topic: str, client: Client
) -> None:
    large = Sent(value=bytes(200_000))
    write(client, servers, topic, [large])
    settings = Reading(wait_ms=LONG_MS, min_bytes=100_000)
    with closing(client.consumer(servers, settings)) as consumer:
        consumer.assign(topic, {0: 0})
        # From here on it has a fetch in flight.
        take(consumer, 1)
        write(client, servers, topic, numbered(1))
        assert consumer.poll(1.0) == []
        write(client, servers, topic, [large])
        deadline = Deadline("both records", TIMEOUT_S)
        received: list[Received] = []
        while len(received) < 2:
            deadline.check()
            received += consumer.poll(0.2)


def test_all_partitions_are_served_in_turn(servers: str, topic: str, client: Client) -> None:
    """A response has room for fewer partitions than there are."""
    create_topic(servers, topic, partitions=6)
    sent = [Sent(value=bytes(1_000), partition=number % 6) for number in range(1_200)]
    # Batches smaller than max.partition.fetch.bytes, so that the bytes are shared out.
    for begin in range(0, len(sent), 60):
        write(CONFLUENT, servers, topic, sent[begin : begin + 60], Sending(linger_ms=10))
    settings = Reading(partition_bytes=20_000, total_bytes=40_000)
    with closing(client.consumer(servers, settings)) as consumer:
        consumer.assign(topic, dict.fromkeys(range(6), 0))
        early: dict[int, int] = {}
        seen = 0
        deadline = Deadline("all records")
        while seen < len(sent):
            deadline.check()
            for each in consumer.poll(0.2):
                if seen < 700:
                    early[each.partition] = early.get(each.partition, 0) + 1
                seen += 1
    # No partition was left behind while others were read to the end.
    assert sorted(early) == list(range(6))


def test_each_of_several_partitions_is_read_in_order(
    servers: str, topic: str, client: Client
) -> None:
    create_topic(servers, topic, partitions=4)
    sent = [Sent(value=str(number).encode(), partition=number % 4) for number in range(400)]
    write(client, servers, topic, sent, Sending(linger_ms=5))
    with closing(client.consumer(servers, Reading())) as consumer:
        consumer.assign(topic, dict.fromkeys(range(4), 0))
        received = take(consumer, 400)
    for partition in range(4):
        offsets = [each.offset for each in received if each.partition == partition]
        assert offsets == list(range(100))
