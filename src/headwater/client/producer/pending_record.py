"""A record that is not in a batch yet, and what it waits for.

It is serialized, partitioned by `partitioner.class` if there is one, and its headers are read: all
of that once. However often the producer tries to place it, no code of the user's runs again, and
headers that can be read only once (a generator) are not lost.
"""

from enum import Enum

from headwater.client.producer.buffer_pool import MemoryClaim


class Missing(Enum):
    """What a record waits for, if it is not memory (`MemoryClaim`)."""

    METADATA = "metadata"
    PATIENCE = "patience"
    """Nothing is missing, but the sender should catch up; then the record may go on."""


class PendingRecord:
    """A record on its way into the accumulator."""

    __slots__ = (
        "is_eager",
        "key",
        "missing",
        "partition",
        "tail",
        "timestamp",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp: int | None,
        tail: bytes,
    ) -> None:
        self.topic = topic
        self.value = value
        self.key = key
        self.partition = partition
        """The one that was asked for; None if the key or the producer decides."""
        self.timestamp = timestamp
        self.tail = tail
        self.missing: Missing | MemoryClaim = Missing.METADATA
        self.is_eager = False
        """Whether it has let the sender catch up already."""

    @property
    def claim(self) -> MemoryClaim | None:
        """Its place in line for memory, if that is what it waits for."""
        return self.missing if isinstance(self.missing, MemoryClaim) else None
