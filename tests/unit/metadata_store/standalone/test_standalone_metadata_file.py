"""Format of the metadata file."""

import pytest

from headwater.common.config_types import ResourceType
from headwater.common.exceptions import CorruptFile
from headwater.common.ids import NodeId, TopicId
from headwater.controller.topic_creation import new_partition
from headwater.metadata.changes import (
    AclsReplaced,
    BrokerAdmitted,
    BrokerGone,
    BrokerRegistered,
    ConfigsReplaced,
    ControllerElected,
    ControllerGone,
    FeatureFinalized,
    MetadataChange,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
    TopicDeletionBegun,
)
from headwater.metadata.cluster_image import (
    BrokerEndpoint,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    TopicImage,
    Version,
)
from headwater.metadata_store.standalone.standalone_metadata_file import (
    StoredChange,
    decode,
    encode_changes,
    encode_snapshot,
)
from headwater.security.authorization.acl_bindings import (
    AclEntry,
    AclSet,
    PatternType,
    Permission,
    ResourcePattern,
)
from headwater.security.authorization.authorizer import Operation, ResourceKind

MOVING = PartitionRegistration(
    replicas=(NodeId(1), NodeId(0)),
    isr=(NodeId(0),),
    leader=NodeId(0),
    leader_epoch=3,
    partition_epoch=8,
    adding=(NodeId(1),),
    removing=(NodeId(0),),
)
ENDPOINT = BrokerEndpoint(listener="PLAINTEXT", host="höst", port=9092)
ALL_KINDS: list[MetadataChange] = [
    BrokerRegistered(
        BrokerRegistration(node_id=NodeId(2), epoch=7, rack="r", endpoints=(ENDPOINT,))
    ),
    ControllerElected(NodeId(2)),
    TopicCreated(TopicImage(name="a", topic_id=TopicId(b"\x02" * 16), partitions=(MOVING,))),
    TopicCreated(TopicImage(name="b", topic_id=TopicId(b"\x03" * 16), partitions=(MOVING,))),
    PartitionsAdded("a", (new_partition([0]), MOVING)),
    PartitionChanged("a", 1, MOVING),
    ConfigsReplaced(ConfigResource(ResourceType.TOPIC, "a"), {"retention.ms": "ü\u2603"}),
    FeatureFinalized("metadata.version", 20),
    ProducerIdsAllocated(5_000),
    TopicDeleted("b"),
    BrokerGone(NodeId(2)),
    ControllerGone(),
    BrokerAdmitted(NodeId(2), 7),
    TopicDeletionBegun("a"),
    AclsReplaced(
        ResourcePattern(ResourceKind.GROUP, "gr/üppe", PatternType.PREFIXED),
        AclSet((AclEntry("User:ä", "*", Operation.READ, Permission.DENY),), 3),
    ),
]
EMPTY = ClusterImage(cluster_id="c", is_standalone=True)
SNAPSHOT = encode_snapshot(EMPTY)
FRAMES = [
    encode_changes([StoredChange(ALL_KINDS[:6], Version(1, 1))]),
    encode_changes(
        [StoredChange(ALL_KINDS[6:9], Version(1, 2)), StoredChange(ALL_KINDS[9:], Version(2, 3))]
    ),
]


def test_every_change_is_read_as_it_was_written() -> None:
    file = decode(SNAPSHOT + b"".join(FRAMES), is_standalone=True)
    assert [
        change for stored_change in file.stored_changes for change in stored_change.changes
    ] == ALL_KINDS
    assert file.image().version == (2, 3)


def test_a_snapshot_has_everything_but_live_brokers() -> None:
    image = decode(SNAPSHOT + b"".join(FRAMES), is_standalone=True).image()
    again = decode(encode_snapshot(image), is_standalone=True)
    assert (again.image(), again.stored_changes) == (image, [])


def test_a_torn_end_is_dropped_wherever_it_is_torn() -> None:
    whole = SNAPSHOT + b"".join(FRAMES)
    sound = len(SNAPSHOT + FRAMES[0])
    for length in range(sound, len(whole)):
        for rest in (b"", bytes(len(whole) - length)):
            if length + len(rest) == len(whole) and whole.endswith(rest) and rest:
                continue
            file = decode(whole[:length] + rest, is_standalone=True)
            assert (file.end, file.image().version) == (sound, (1, 1))


def test_damage_before_the_end_is_reported_and_not_truncated() -> None:
    """Truncating there would lose acknowledged changes."""
    whole = bytearray(SNAPSHOT + b"".join(FRAMES))
    for position in range(len(SNAPSHOT), len(SNAPSHOT + FRAMES[0])):
        damaged = whole.copy()
        damaged[position] ^= 0xFF
        with pytest.raises(
            CorruptFile, match=f"damaged at {len(SNAPSHOT)}, but a valid frame follows"
        ):
            decode(bytes(damaged), is_standalone=True)


def test_a_damaged_snapshot_is_never_a_torn_end() -> None:
    for content in (b"", SNAPSHOT[:-1], b"\0" * len(SNAPSHOT)):
        with pytest.raises(CorruptFile, match="snapshot at the start"):
            decode(content, is_standalone=True)


def test_changes_with_a_version_gap_are_rejected() -> None:
    for version in (Version(1, 2), Version(1, 0), Version(-1, 1)):
        with pytest.raises(CorruptFile, match="cannot follow"):
            decode(SNAPSHOT + encode_changes([StoredChange([], version)]), is_standalone=True)
