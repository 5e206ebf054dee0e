"""Other client libraries behind one interface, so that all test the same behaviour.

They are used as they are, each with its own settings and errors; only input and output have one
form here.

Note: no consumer is in a group. Partitions are assigned, and offsets are never committed.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Protocol

TIMEOUT_S: Final = 60.0
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record to send. Without a partition the client chooses one."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A received record."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    is_append_time: bool
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """Producer settings."""

    codec: str = "none"
    acks: int = -1
    is_idempotent: bool = False
    linger_ms: int = 0
    largest_bytes: int = 1_000_000
    delivery_timeout_ms: int = int(TIMEOUT_S * 1_000)
    """How long to look for a topic, and to retry a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Consumer settings."""

    reset: str | None = None
    """auto.offset.reset: earliest, latest, or none, which is an error."""
    is_committed_only: bool = False
    wait_ms: int = 100
    min_bytes: int = 1
    partition_bytes: int = 1_000_000
    total_bytes: int = 50_000_000


class OpenProducer(Protocol):
    """A producer that runs until it is closed."""

    def send(self, topic: str, record: Sent) -> None:
        """Send a record. `finish` returns its outcome."""
        ...

    def finish(self) -> list[tuple[int, int]]:
        """Wait for all records since the last call; return partition and offset of each.

        The offset is negative if there is none. Raises the library's own error.
        """
        ...

    def close(self) -> None: ...


class OpenConsumer(Protocol):
    """A consumer without a group, until it is closed."""

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Read these partitions and nothing else, each from an offset."""
        ...

    def poll(self, wait_s: float) -> list[Received]:
        """Return records that have arrived, or arrive within this time. Raises the library's own
        error.
        """
        ...

    def seek(self, topic: str, partition: int, offset: int) -> None: ...

    def pause(self, topic: str, partition: int) -> None: ...

    def resume(self, topic: str, partition: int) -> None: ...

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the log start offset and the end offset."""
        ...

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """Return the first offset whose timestamp is not older."""
        ...

    def close(self) -> None: ...


class Client(Protocol):
    """One client library."""

    name: str

    def lacks(self, codec: str) -> str | None:
        """Return why this installation of the library lacks a codec."""
        ...

    def producer(self, servers: str, sending: Sending) -> OpenProducer: ...

    def consumer(self, servers: str, reading: Reading) -> OpenConsumer: ...


class Deadline:
    """Fails a test that waits for too long."""

    def __init__(self, waiting_for: str, timeout_s: float = TIMEOUT_S) -> None:
        self._waiting_for = waiting_for
        self._until_s = time.monotonic() + timeout_s

    def check(self, seen: object = "") -> None:
        assert time.monotonic() < self._until_s, f"waited in vain for {self._waiting_for} {seen}"


def write(
    client: Client,
    servers: str,
    topic: str,
    records: Sequence[Sent],
    sending: Sending | None = None,
) -> list[tuple[int, int]]:
    """Write records with a new producer; return partition and offset of each."""
    with closing(client.producer(servers, sending or Sending())) as producer:
        for record in records:
            producer.send(topic, record)
        return producer.finish()


def read(
    client: Client,
    servers: str,
    topic: str,
    count: int,
    *,
    partitions: Sequence[int] = (0,),
    reading: Reading | None = None,
) -> list[Received]:
    """Read so many records of these partitions, each from its first offset."""
    with closing(client.consumer(servers, reading or Reading())) as consumer:
        consumer.assign(topic, dict.fromkeys(partitions, 0))
        return take(consumer, count)


def take(consumer: OpenConsumer, count: int) -> list[Received]:
    """Poll until so many records have arrived. More is an error."""
    received: list[Received] = []
    deadline = Deadline(f"{count} records")
    while len(received) < count:
        deadline.check(f"and got {len(received)}")
        received += consumer.poll(0.2)
    assert len(received) == count
    return received
