"""Send malformed frames to a broker, and check it afterwards.

`python -m tests.fuzz.siege --frames 1000000 --seed 7` does at length what the test does in short.
"""

import argparse
import random
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from headwater.broker.requests.api_routes import SERVED_APIS
from headwater.protocol.api_key import ApiKey
from headwater.testing import EmbeddedBroker
from tests.fuzz.frames import PRODUCED_TOPICS, FrameMaker

CANARY = "canary"
_CANARIES = 1_000
_TIMEOUT_S = 30.0
# A joining member may have to wait for others, and then disconnects.
_WAIT_S = 0.2
_FRAMES_PER_CONNECTION = 8
_TOLD_EVERY = 50_000

# These would delete the canary records, or fill the disk with topics.
_TOO_STRONG = (ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.CREATE_PARTITIONS)


def besiege(broker: EmbeddedBroker, *, frames: int, seed: int, say: Callable[[str], None]) -> None:
    """Send frames; raise AssertionError if the broker is not as before."""
    _plant(broker.bootstrap_servers)
    rng = random.Random(seed)
    maker = FrameMaker(rng, tuple(key for key in SERVED_APIS if key not in _TOO_STRONG))
    before_bytes, started = _resident_bytes(broker.pid), time.monotonic()
    sent = told = 0
    while sent < frames:
        sent += _one_connection(broker.port, maker, rng)
        if sent >= told + _TOLD_EVERY:
            told = sent
            rate = sent / (time.monotonic() - started)
            say(f"{sent:,} frames, {rate:,.0f}/s, {_resident_bytes(broker.pid) >> 20} MiB resident")
    assert broker.is_running, "the broker is gone"
    grown_bytes = _resident_bytes(broker.pid) - before_bytes
    assert grown_bytes < 300 << 20, f"the broker has grown by {grown_bytes >> 20} MiB"
    _check_canaries(broker.bootstrap_servers)
    say(f"{_read_all(broker.bootstrap_servers):,} records of the siege were taken, and can be read")


def _one_connection(port: int, maker: FrameMaker, rng: random.Random) -> int:
    """Send a few frames, then read until the broker has answered all or closed the connection."""
    count = rng.randrange(1, _FRAMES_PER_CONNECTION)
    # From many addresses, because a port cannot be reused at once.
    source = f"127.{rng.randrange(1, 255)}.{rng.randrange(255)}.{rng.randrange(1, 255)}"
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S, (source, 0)) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # The broker may have disconnected at any moment.
        with suppress(OSError):
            peer.sendall(b"".join(maker.frame() for _ in range(count)))
            peer.shutdown(socket.SHUT_WR)
            peer.settimeout(_WAIT_S)
            while peer.recv(65_536):
                pass
    return count


def _plant(bootstrap_servers: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(_CANARIES):
        producer.produce(CANARY, str(number).encode())
    for topic in PRODUCED_TOPICS:
        producer.produce(topic, b"first")
    assert producer.flush(_TIMEOUT_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": CANARY})
    consumer.commit(offsets=[TopicPartition(CANARY, 0, _CANARIES)], asynchronous=False)
    consumer.close()


def _check_canaries(bootstrap_servers: str) -> None:
    """Check that all earlier records are read in order, and committed offsets are kept."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": CANARY})
    (committed,) = consumer.committed([TopicPartition(CANARY, 0)], timeout=_TIMEOUT_S)
    assert committed.offset == _CANARIES
    consumer.assign([TopicPartition(CANARY, 0, 0)])
    values: list[bytes | None] = []
    deadline = time.monotonic() + _TIMEOUT_S
    while len(values) < _CANARIES and time.monotonic() < deadline:
        values += [message.value() for message in consumer.consume(_CANARIES, 1.0)]
    consumer.close()
    assert values == [str(number).encode() for number in range(_CANARIES)]


def _read_all(bootstrap_servers: str) -> int:
    """Read the produced records; an unreadable batch would stop any consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"{CANARY}-reader",
            "check.crcs": True,
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
        }
    )
    known = consumer.list_topics(timeout=_TIMEOUT_S).topics
    places = [
        TopicPartition(topic, partition, OFFSET_BEGINNING)
        for topic in PRODUCED_TOPICS
        for partition in known[topic].partitions
    ]
    consumer.assign(places)
    left = {(each.topic, each.partition) for each in places}
    count = 0
    deadline = time.monotonic() + _TIMEOUT_S
    while left and time.monotonic() < deadline:
        for message in consumer.consume(1_000, 1.0):
            error = message.error()
            if error is None:
                count += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard((message.topic(), message.partition()))
            else:
                raise AssertionError(f"{message.topic()} cannot be read: {error}")
    consumer.close()
    assert not left, f"{sorted(left)} were not read to their end"
    return count


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the broker is gone")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with EmbeddedBroker() as broker:
        besiege(broker, frames=asked.frames, seed=asked.seed, say=print)
    print("still standing, data unharmed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
