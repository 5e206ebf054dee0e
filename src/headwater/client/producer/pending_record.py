"""A record that could not be appended to a batch yet, and what it waits for.

Its key, value and headers are serialized and `partitioner.class` has been called, once. However
often the producer retries, no user code runs again, and headers from a generator are not lost.
"""

from enum import Enum

from headwater.client.producer.buffer_pool import MemoryClaim


class Missing(Enum):
    """What a record waits for, other than memory (`MemoryClaim`)."""

    METADATA = "metadata"
    CATCH_UP = "catch up"
    """Nothing is missing, but the sender is behind; give it a moment."""


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
        """The requested partition; None if the key or the producer decides."""
        self.timestamp = timestamp
        self.tail = tail
        self.missing: Missing | MemoryClaim = Missing.METADATA
        self.is_eager = False
        """Whether it has already waited for the sender."""

    @property
    def claim(self) -> MemoryClaim | None:
        """Its place in the queue for memory, if it waits for memory."""
        return self.missing if isinstance(self.missing, MemoryClaim) else None
