"""Foreign clients behind one small face, so that all of them can judge the same behaviour.

They are used as they are, each with its own settings and errors; only what goes in and what comes
out has one shape here. What a reader would get wrong: no consumer is in a group. Each is told what
to read, and offsets are never committed.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Protocol

PATIENCE_S: Final = 60.0
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record as a test hands it to a client. Without a partition the client chooses one."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A record as a client hands it out."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    is_append_time: bool
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How a producer is set up."""

    codec: str = "none"
    acks: int = -1
    is_idempotent: bool = False
    linger_ms: int = 0
    largest_bytes: int = 1_000_000
    patience_ms: int = int(PATIENCE_S * 1_000)
    """How long to look for a topic, and to try to send a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a consumer is set up."""

    reset: str | None = None
    """Where to go from an offset that is out of range: earliest, latest, or nowhere, an error."""
    is_committed_only: bool = False
    wait_ms: int = 100
    min_bytes: int = 1
    partition_bytes: int = 1_000_000
    total_bytes: int = 50_000_000


class OpenProducer(Protocol):
    """A producer that runs until it is closed."""

    def send(self, topic: str, record: Sent) -> None:
        """Hand a record over. What becomes of it is told by `finish`."""
        ...

    def finish(self) -> list[tuple[int, int]]:
        """Wait for all that was sent since the last time: partition and offset of each record.

        The offset is negative where none was told. Raises the library's own error.
        """
        ...

    def close(self) -> None: ...


class OpenConsumer(Protocol):
    """A consumer that is in no group, until it is closed."""

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Read these partitions and nothing else, each from an offset."""
        ...

    def poll(self, wait_s: float) -> list[Received]:
        """What has arrived, or arrives within this time. Raises the library's own error."""
        ...

    def seek(self, topic: str, partition: int, offset: int) -> None: ...

    def pause(self, topic: str, partition: int) -> None: ...

    def resume(self, topic: str, partition: int) -> None: ...

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset, and the one that comes next."""
        ...

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """The first record that is not older."""
        ...

    def close(self) -> None: ...


class Client(Protocol):
    """One foreign library."""

    name: str

    def lacks(self, codec: str) -> str | None:
        """Why this installation of the library cannot do a codec."""
        ...

    def producer(self, servers: str, sending: Sending) -> OpenProducer: ...

    def consumer(self, servers: str, reading: Reading) -> OpenConsumer: ...


class Deadline:
    """Fails a test that waits for what does not come."""

    def __init__(self, waiting_for: str, patience_s: float = PATIENCE_S) -> None:
        self._waiting_for = waiting_for
        self._until_s = time.monotonic() + patience_s

    def check(self, seen: object = "") -> None:
        assert time.monotonic() < self._until_s, f"waited in vain for {self._waiting_for} {seen}"


def write(
    client: Client,
    servers: str,
    topic: str,
    records: Sequence[Sent],
    sending: Sending | None = None,
) -> list[tuple[int, int]]:
    """Partition and offset of each record, written by a producer of their own."""
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
    """So many records of these partitions, each from its first offset."""
    with closing(client.consumer(servers, reading or Reading())) as consumer:
        consumer.assign(topic, dict.fromkeys(partitions, 0))
        return take(consumer, count)


def take(consumer: OpenConsumer, count: int) -> list[Received]:
    """Poll until so many records are there. More is an error."""
    received: list[Received] = []
    deadline = Deadline(f"{count} records")
    while len(received) < count:
        deadline.check(f"and got {len(received)}")
        received += consumer.poll(0.2)
    assert len(received) == count
    return received
