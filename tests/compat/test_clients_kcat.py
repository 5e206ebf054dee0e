"""kcat, librdkafka's command line client, if it is installed."""

import json
import shutil
import subprocess

import pytest

from tests.compat.clients import CODECS, TIMEOUT_S, Sent, read, write
from tests.compat.judges import CLIENTS, CONFLUENT
from tests.compat.topics import create_topic

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")


def kcat(servers: str, *arguments: str, given: bytes = b"") -> bytes:
    done = subprocess.run(
        ["kcat", "-b", servers, *arguments],
        input=given,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_kcat_writes(servers: str, topic: str, codec: str) -> None:
    create_topic(servers, topic)
    lines = b"".join(b"key %d:value %d\n" % (number, number) for number in range(20))
    kcat(servers, "-P", "-t", topic, "-K", ":", "-z", codec, "-H", "from=kcat", given=lines)
    for reader in CLIENTS:
        if reader.lacks(codec):
            continue
        received = read(reader, servers, topic, 20)
        assert [each.key for each in received] == [b"key %d" % number for number in range(20)]
        assert all(each.headers == (("from", b"kcat"),) for each in received), reader.name


def test_kcat_reads_to_the_end_and_exits(servers: str, topic: str) -> None:
    write(CONFLUENT, servers, topic, [Sent(value=b"one"), Sent(value=b"two")])
    assert kcat(servers, "-C", "-t", topic, "-o", "beginning", "-e", "-q") == b"one\ntwo\n"


def test_kcat_lists_topics_and_brokers(servers: str, topic: str) -> None:
    create_topic(servers, topic, partitions=2)
    listed = json.loads(kcat(servers, "-L", "-J"))
    assert [each["name"] for each in listed["brokers"]] == [servers]
    (found,) = [each for each in listed["topics"] if each["topic"] == topic]
    assert len(found["partitions"]) == 2


def test_kcat_queries_an_offset_by_timestamp(servers: str, topic: str) -> None:
    times_ms = [1_000, 2_000, 3_000]
    write(CONFLUENT, servers, topic, [Sent(value=b"v", timestamp_ms=each) for each in times_ms])
    assert kcat(servers, "-Q", "-t", f"{topic}:0:1500").split() == [
        topic.encode(),
        b"[0]",
        b"offset",
        b"1",
    ]
