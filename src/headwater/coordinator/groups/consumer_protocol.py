"""What consumers of the classic protocol say to each other, for a broker that must listen in.

Subscriptions and assignments are bytes to a classic group (GR-15). In a consumer group the broker
assigns, so it must read the ones and write the others. Both begin with a version; one that is newer
than all we know is read as the newest, which is what the format promises.
"""

from struct import Struct
from typing import Final

from headwater.cluster.image import ClusterImage
from headwater.coordinator.assignors.spec import Partitions, TopicIdPartition
from headwater.coordinator.groups.consumer_group_facts import by_topic
from headwater.model.failures import ProtocolError
from headwater.wire.layout import Layout, layout_of
from headwater.wire.shape import many, one, shape

_NEWEST: Final = 3
_INT16: Final = Struct(">h")


@shape
class NamedPartitions:
    topic: str = one("string", default="")
    partitions: tuple[int, ...] = many("int32", default=())


@shape
class Subscription:
    """What a consumer wants, and what it still has of the last time."""

    topics: tuple[str, ...] = many("string", default=())
    user_data: bytes | None = one("bytes", default=None, nullable_since=0)
    owned_partitions: tuple[NamedPartitions, ...] = many(NamedPartitions, default=(), since=1)
    generation_id: int = one("int32", default=-1, since=2)
    rack_id: str | None = one("string", default=None, since=3, nullable_since=3)


@shape
class ConsumerAssignment:
    """What a consumer gets."""

    assigned_partitions: tuple[NamedPartitions, ...] = many(NamedPartitions, default=())
    user_data: bytes | None = one("bytes", default=None, nullable_since=0)


def read_subscription(metadata: bytes) -> Subscription:
    """ProtocolError, if it is none."""
    layout: Layout[Subscription] = layout_of(Subscription, version_of(metadata), flexible=False)
    return layout.read(_behind(metadata))


def read_assignment(assignment: bytes) -> ConsumerAssignment:
    """ProtocolError, if it is none. Who was given nothing may have been given no bytes at all."""
    if not assignment:
        return ConsumerAssignment()
    version = version_of(assignment)
    layout: Layout[ConsumerAssignment] = layout_of(ConsumerAssignment, version, flexible=False)
    return layout.read(_behind(assignment))


def write_assignment(partitions: Partitions, version: int, image: ClusterImage) -> bytes:
    """By the names of the topics; those that are gone have none, and are left out."""
    named = []
    for each in by_topic(partitions):
        topic = image.topic_by_id(each.topic_id)
        if topic is not None:
            named.append(NamedPartitions(topic=topic.name, partitions=each.partitions))
    assignment = ConsumerAssignment(assigned_partitions=tuple(named))
    (part,) = layout_of(ConsumerAssignment, version, flexible=False).write(assignment)
    assert isinstance(part, bytearray)
    return _INT16.pack(version) + bytes(part)


def ids_of(named: tuple[NamedPartitions, ...], image: ClusterImage) -> Partitions:
    return frozenset(
        TopicIdPartition(topic.topic_id, partition)
        for each in named
        if (topic := image.topics.get(each.topic)) is not None
        for partition in each.partitions
    )


def version_of(metadata: bytes) -> int:
    if len(metadata) < _INT16.size:
        raise ProtocolError("a subscription or assignment without a version")
    version = int(_INT16.unpack_from(metadata)[0])
    if version < 0:
        raise ProtocolError(f"version {version} of a subscription or assignment")
    return min(version, _NEWEST)


def _behind(metadata: bytes) -> memoryview:
    return memoryview(metadata)[_INT16.size :]
