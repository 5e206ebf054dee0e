"""ConsumerProtocol: subscriptions and assignments inside JoinGroup and SyncGroup.

They are opaque bytes to a classic group (GR-15); the group leader reads them, or a broker that
assigns partitions for classic members of a consumer group. Both start with a version. An unknown
newer version is read as the newest known one, as the format guarantees.
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
    """Subscription of a consumer, with its previously owned partitions."""

    topics: tuple[str, ...] = many("string", default=())
    user_data: bytes | None = one("bytes", default=None, nullable_since=0)
    owned_partitions: tuple[NamedPartitions, ...] = many(
        NamedPartitions, default=(), since=1, ignorable=True
    )
    generation_id: int = one("int32", default=-1, since=2, ignorable=True)
    rack_id: str | None = one("string", default=None, since=3, nullable_since=3, ignorable=True)


@protocol_message
class ConsumerAssignment:
    assigned_partitions: tuple[NamedPartitions, ...] = many(NamedPartitions, default=())
    user_data: bytes | None = one("bytes", default=None, nullable_since=0)


def read_subscription(metadata: bytes) -> Subscription:
    """Decode a subscription, or raise ProtocolError."""
    layout: VersionedCodec[Subscription] = codec_for(
        Subscription, version_of(metadata), flexible=False
    )
    return layout.read(_after_version(metadata))


def write_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """Encode a subscription; drop fields that an older version lacks, as Kafka."""
    (part,) = codec_for(Subscription, version, flexible=False).write(subscription)
    assert isinstance(part, bytearray)
    return _INT16.pack(version) + bytes(part)


def read_assignment(assignment: bytes) -> ConsumerAssignment:
    """Decode an assignment, which may be empty, or raise ProtocolError."""
    if not assignment:
        return ConsumerAssignment()
    version = version_of(assignment)
    layout: VersionedCodec[ConsumerAssignment] = codec_for(
        ConsumerAssignment, version, flexible=False
    )
    return layout.read(_after_version(assignment))


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
    """Group partitions by topic, sorted, so that equal sets give equal bytes."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return tuple(
        NamedPartitions(topic=topic, partitions=tuple(numbers))
        for topic, numbers in by_topic.items()
    )


def partitions_of(named: Iterable[NamedPartitions]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, number) for each in named for number in each.partitions]


def _after_version(metadata: bytes) -> memoryview:
    return memoryview(metadata)[_INT16.size :]
