"""Identifiers of partitions, topics, producers and nodes.

A topic is identified by name or by id; an id is 16 bytes on the wire and is displayed as 22
characters of URL-safe base64, never as a UUID with dashes.
"""

import base64
import binascii
from typing import NamedTuple, NewType, Self

from headwater.common.exceptions import ProtocolError

NodeId = NewType("NodeId", int)
ProducerId = NewType("ProducerId", int)

NO_PRODUCER = ProducerId(-1)
NO_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

_ID_BYTES = 16


class TopicPartition(NamedTuple):
    """Partition of a topic, by name. Displayed as in Kafka: `topic-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicId(bytes):
    """Topic id of 16 bytes; a re-created topic gets a new one."""

    __slots__ = ()

    def __new__(cls, raw: bytes) -> Self:
        if len(raw) != _ID_BYTES:
            raise ProtocolError(f"a topic id has {_ID_BYTES} bytes, not {len(raw)}")
        return super().__new__(cls, raw)

    @classmethod
    def parse(cls, text: str) -> Self:
        try:
            return cls(base64.urlsafe_b64decode(text + "=="))
        except (binascii.Error, ValueError) as error:
            raise ProtocolError(f"not a topic id: {text!r}") from error

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self).rstrip(b"=").decode("ascii")


NO_TOPIC_ID = TopicId(bytes(_ID_BYTES))
