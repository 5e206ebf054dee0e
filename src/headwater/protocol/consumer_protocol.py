"""What consumers of the classic protocol say to each other, inside JoinGroup and SyncGroup.

Subscriptions and assignments are bytes to a classic group (GR-15); they are read by the member that
leads it, or by a broker that assigns for old members of a new group. Both begin with a version. One
that is newer than all we know is read as the newest, which is what the format promises.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from headwater.common.exceptions import ProtocolError
from headwater.common.ids import TopicPartition
from headwater.protocol.schema import many, one, protocol_message
from headwater.protocol.versioned_codec import VersionedCodec, codec_for

NEWEST_VERSION: Final = 3
PROTOCOL_TYPE: Final = "consumer"
_INT16: Final = Struct(">h")


@protocol_message
class NamedPartitions:
    topic: str = one("string", default="")
    partitions: tuple[int, ...] = many("int32", default=())


@protocol_message
class Subscription:
    """What a consumer wants, and what it still has of the last time."""

    topics: tuple[str, ...] = many("string", default=())
    user_data: bytes | None = one("bytes", default=None, nullable_since=0)
    owned_partitions: tuple[NamedPartitions, ...] = many(
        NamedPartitions, default=(), since=1, ignorable=True
    )
    generation_id: int = one("int32", default=-1, since=2, ignorable=True)
    rack_id: str | None = one("string", default=None, since=3, nullable_since=3, ignorable=True)


@protocol_message
class ConsumerAssignment:
    """What a consumer gets."""

    assigned_partitions: tuple[NamedPartitions, ...] = many(NamedPartitions, default=())
    user_data: bytes | None = one("bytes", default=None, nullable_since=0)


def read_subscription(metadata: bytes) -> Subscription:
    """ProtocolError, if it is none."""
    layout: VersionedCodec[Subscription] = codec_for(
        Subscription, version_of(metadata), flexible=False
    )
    return layout.read(_behind(metadata))


def write_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """An older version drops what it has no field for, as Kafka's clients do."""
    (part,) = codec_for(Subscription, version, flexible=False).write(subscription)
    assert isinstance(part, bytearray)
    return _INT16.pack(version) + bytes(part)


def read_assignment(assignment: bytes) -> ConsumerAssignment:
    """ProtocolError, if it is none. Who was given nothing may have been given no bytes at all."""
    if not assignment:
        return ConsumerAssignment()
    version = version_of(assignment)
    layout: VersionedCodec[ConsumerAssignment] = codec_for(
        ConsumerAssignment, version, flexible=False
    )
    return layout.read(_behind(assignment))


def write_assignment(assignment: ConsumerAssignment, version: int = NEWEST_VERSION) -> bytes:
    (part,) = codec_for(ConsumerAssignment, version, flexible=False).write(assignment)
    assert isinstance(part, bytearray)
    return _INT16.pack(version) + bytes(part)


def version_of(metadata: bytes) -> int:
    if len(metadata) < _INT16.size:
        raise ProtocolError("a subscription or assignment without a version")
    version = int(_INT16.unpack_from(metadata)[0])
    if version < 0:
        raise ProtocolError(f"version {version} of a subscription or assignment")
    return min(version, NEWEST_VERSION)


def named_partitions(partitions: Iterable[TopicPartition]) -> tuple[NamedPartitions, ...]:
    """Partitions by topic, in order: equal sets give equal bytes."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return tuple(
        NamedPartitions(topic=topic, partitions=tuple(numbers))
        for topic, numbers in by_topic.items()
    )


def partitions_of(named: Iterable[NamedPartitions]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, number) for each in named for number in each.partitions]


def _behind(metadata: bytes) -> memoryview:
    return memoryview(metadata)[_INT16.size :]
