"""Records as other clients write them and as each of them reads them back."""

import random
import time

import pytest

from tests.compat.clients import CODECS, Client, Reading, Sending, Sent, read, write
from tests.compat.judges import CLIENTS
from tests.compat.topics import create_topic

RANDOM = random.Random(1)


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_one_client_compresses(
    servers: str, topic: str, client: Client, codec: str
) -> None:
    lacking = client.lacks(codec)
    if lacking:
        pytest.skip(lacking)
    sent = [
        Sent(key=str(number).encode(), value=b"water " * RANDOM.randrange(200))
        for number in range(50)
    ]
    write(client, servers, topic, sent, Sending(codec=codec, linger_ms=20))
    for reader in CLIENTS:
        if reader.lacks(codec):
            continue
        received = read(reader, servers, topic, len(sent))
        assert [(each.key, each.value) for each in received] == [
            (each.key, each.value) for each in sent
        ], reader.name
        assert [each.offset for each in received] == list(range(len(sent)))


@pytest.mark.parametrize("size_bytes", [1, 1 << 10, 1 << 20, 10 << 20])
def test_message_of_any_allowed_size_arrives_whole(
    servers: str, topic: str, client: Client, size_bytes: int
) -> None:
    room_bytes = size_bytes + 1_000
    create_topic(servers, topic, {"max.message.bytes": str(max(room_bytes, 2_000))})
    value = RANDOM.randbytes(size_bytes)
    settings = Sending(largest_bytes=max(room_bytes, 1_000_000))
    write(client, servers, topic, [Sent(value=value), Sent(value=value[:1])], settings)
    for reader in CLIENTS:
        received = read(reader, servers, topic, 2)
        # A batch larger than the fetch size is returned whole (KIP-74).
        assert [each.value for each in received] == [value, value[:1]], reader.name


def test_null_and_empty_stay_different(servers: str, topic: str, client: Client) -> None:
    sent = [
        Sent(key=None, value=b"v"),
        Sent(key=b"", value=b"v"),
        Sent(key=b"k", value=None),
        Sent(key=b"k", value=b""),
        Sent(key=b"", value=b""),
        Sent(key=b"\x00", value=b"\x00"),
    ]
    write(client, servers, topic, sent)
    for reader in CLIENTS:
        received = read(reader, servers, topic, len(sent))
        assert [(each.key, each.value) for each in received] == [
            (each.key, each.value) for each in sent
        ], reader.name


def test_headers_keep_order_duplicates_and_bytes(servers: str, topic: str, client: Client) -> None:
    headers = (
        ("b", b"1"),
        ("a", b"2"),
        ("b", b"3"),
        ("", b"no name"),
        ("empty", b""),
        ("größe", bytes(range(256))),
    )
    sent = [
        Sent(value=b"1", headers=headers),
        Sent(value=b"2"),
        Sent(value=b"3", headers=headers[:1]),
    ]
    write(client, servers, topic, sent)
    for reader in CLIENTS:
        received = read(reader, servers, topic, len(sent))
        assert [each.headers for each in received] == [each.headers for each in sent], reader.name


def test_header_may_have_a_null_value(servers: str, topic: str, client: Client) -> None:
    if client.name == "kafka-python":
        pytest.skip(f"{client.name} cannot write such a header")
    headers = (("none", None), ("empty", b""))
    write(client, servers, topic, [Sent(value=b"v", headers=headers)])
    for reader in CLIENTS:
        received = read(reader, servers, topic, 1)
        assert received[0].headers == headers, reader.name


def test_create_time_is_kept(servers: str, topic: str, client: Client) -> None:
    """CreateTime, in any order, also long ago."""
    now_ms = int(time.time() * 1_000)
    times_ms = [now_ms, now_ms - 86_400_000, 1, now_ms - 5]
    write(client, servers, topic, [Sent(value=b"v", timestamp_ms=each) for each in times_ms])
    for reader in CLIENTS:
        received = read(reader, servers, topic, len(times_ms))
        assert [each.timestamp_ms for each in received] == times_ms, reader.name
        assert not any(each.is_append_time for each in received)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_topic_may_use_log_append_time(
    servers: str, topic: str, client: Client, codec: str
) -> None:
    """LogAppendTime: every record of a batch has the broker's time (PV-4)."""
    create_topic(servers, topic, {"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1_000)
    sent = [Sent(value=b"v", timestamp_ms=1_000 + number) for number in range(3)]
    write(client, servers, topic, sent, Sending(codec=codec))
    after_ms = int(time.time() * 1_000)
    for reader in CLIENTS:
        received = read(reader, servers, topic, 3)
        assert all(each.is_append_time for each in received), reader.name
        # Rounded to milliseconds at either end.
        assert all(before_ms - 1 <= each.timestamp_ms <= after_ms + 1 for each in received)


def test_read_committed_consumer_reads_plain_records(
    servers: str, topic: str, client: Client
) -> None:
    write(client, servers, topic, [Sent(value=b"1"), Sent(value=b"2")])
    received = read(client, servers, topic, 2, reading=Reading(is_committed_only=True))
    assert [each.value for each in received] == [b"1", b"2"]
