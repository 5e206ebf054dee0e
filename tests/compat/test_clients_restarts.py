"""A broker that restarts, and other clients that recover by themselves."""

import os
import select
import socket
from contextlib import closing
from pathlib import Path

import pytest

from headwater.protocol.api_table import APIS
from headwater.protocol.codec import write as encode
from headwater.protocol.headers import request_frame
from headwater.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headwater.testing import EmbeddedBroker
from tests.compat.brokers import checked_broker
from tests.compat.clients import (
    Client,
    Reading,
    Sending,
    Sent,
    read,
    take,
    write,
)
from tests.compat.judges import CLIENTS, CONFLUENT
from tests.compat.topics import create_topic


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_clients_survive_a_restart_without_loss_or_duplicates(
    topic: str, client: Client, end: str
) -> None:
    """The producer is idempotent, and has records in flight when the broker stops."""
    with checked_broker() as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic)
        with (
            closing(client.producer(servers, Sending(is_idempotent=True))) as producer,
            closing(client.consumer(servers, Reading())) as consumer,
        ):
            consumer.assign(topic, {0: 0})
            count = 0

            def send(more: int) -> None:
                nonlocal count
                for _ in range(more):
                    producer.send(topic, Sent(value=str(count).encode()))
                    count += 1

            send(200)
            assert len(producer.finish()) == 200
            received = take(consumer, 200)
            send(300)
            broker.stop() if end == "stop" else broker.kill()
            send(100)
            broker.start()
            send(100)
            assert len(producer.finish()) == 500
            received += take(consumer, 500)
        assert [int(each.value or b"") for each in received] == list(range(count))
        assert [each.offset for each in received] == list(range(count))


def test_topic_and_its_records_are_there_after_a_restart(topic: str) -> None:
    with checked_broker() as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic, {"max.message.bytes": "5000000"}, partitions=2)
        sent = [Sent(value=bytes(2_000_000), partition=1)]
        write(CONFLUENT, servers, topic, sent, Sending(largest_bytes=4_000_000))
        broker.restart()
        for count, client in enumerate(CLIENTS, 1):
            found = read(client, servers, topic, count, partitions=[1])
            assert found[0].value == bytes(2_000_000)
            # The topic's own limit still applies.
            places = write(client, servers, topic, sent, Sending(largest_bytes=4_000_000))
            assert len(places) == 1


def test_stopping_broker_does_not_wait_for_delayed_fetches(topic: str) -> None:
    """Otherwise a stop would take as long as the longest fetch, or be cut off."""
    with checked_broker() as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic)
        with closing(CONFLUENT.consumer(servers, Reading(wait_ms=60_000))) as consumer:
            consumer.assign(topic, {0: 0})
            assert consumer.poll(0.5) == []
            broker.stop()
            assert "Closed connections with pending responses" not in broker.log_text
            broker.start()
            write(CONFLUENT, servers, topic, [Sent(value=b"v")])
            assert take(consumer, 1)[0].value == b"v"


def test_stop_answers_requests_it_has_received(topic: str, client: Client) -> None:
    """Otherwise a producer without idempotence would send them again."""
    if client.name == "kafka-python":
        pytest.skip("kafka-python drops answers that it reads together with the end")
    with checked_broker() as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic)
        with closing(client.producer(servers, Sending())) as producer:
            sent = [Sent(value=b"%d" % number) for number in range(3_000)]
            for record in sent:
                producer.send(topic, record)
            broker.restart()
            assert len(producer.finish()) == len(sent)
        received = read(CONFLUENT, servers, topic, len(sent))
        with closing(CONFLUENT.consumer(servers, Reading())) as consumer:
            assert consumer.bounds(topic, 0) == (0, len(sent))
        assert sorted(int(each.value or b"") for each in received) == list(range(len(sent)))


def test_client_that_stops_reading_harms_no_others(topic: str) -> None:
    """It requests far more than a socket holds and reads none of it: it is not read any further."""
    with checked_broker() as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic)
        sent = [Sent(value=bytes(500_000)) for _ in range(40)]
        write(CONFLUENT, servers, topic, sent)
        before_bytes = resident_bytes(broker)
        greedy = [flood(broker.port, everything_of(topic)) for _ in range(5)]
        for client in CLIENTS:
            assert len(read(client, servers, topic, 40)) == 40
            assert write(client, servers, f"{topic}-too", [Sent(value=b"v")])[0][0] == 0
        assert resident_bytes(broker) - before_bytes < 200_000_000
        for connection in greedy:
            connection.close()
        assert len(read(CONFLUENT, servers, topic, 40)) == 40


def flood(port: int, request: FetchRequest) -> socket.socket:
    """Send a request repeatedly until the broker reads no more, and read nothing."""
    parts = request_frame(APIS[request.api], 4, 1, "greedy", encode(request, 4))
    frame = b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview))
    left = memoryview(frame * (16_000_000 // len(frame)))
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setblocking(False)
    while select.select([], [connection], [], 0.5)[1]:
        left = left[connection.send(left[:65_536]) :]
        assert left, "it is read, whatever it asks for"
    return connection


def everything_of(topic: str) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50_000_000)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=50_000_000,
        topics=(FetchTopic(topic=topic, partitions=(partition,)),),
    )


def resident_bytes(broker: EmbeddedBroker) -> int:
    pages = Path(f"/proc/{broker.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
