"""Convert metadata changes to ZooKeeper operations. Pure.

Note: a partition's epoch *is* the version of its state znode. So every `PartitionChanged` sets that
znode once, even if only the replicas changed, which are in the topic's znode. It sets it only if it
still has the preceding version, so that nothing unknown is overwritten.

Changes that ZooKeeper derives from sessions need no operation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from headwater.common.config_types import ResourceType
from headwater.common.ids import NodeId
from headwater.metadata.changes import (
    AclsReplaced,
    BrokerAdmitted,
    BrokerGone,
    BrokerRegistered,
    BrokerStopping,
    ConfigsReplaced,
    ControllerElected,
    ControllerGone,
    ControllerRegistered,
    FeatureFinalized,
    LogDirectoryFailed,
    MetadataChange,
    PartitionChanged,
    PartitionDropped,
    PartitionsAdded,
    ProducerIdsAllocated,
    ReplicasOffline,
    TopicCreated,
    TopicDeleted,
    TopicDeletionBegun,
    TopicKnown,
    apply,
)
from headwater.metadata.cluster_image import (
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    TopicImage,
)
from headwater.metadata.config_entities import owning_user
from headwater.metadata_store.zookeeper import acl_znodes, znode_data, znode_paths
from headwater.metadata_store.zookeeper.zookeeper_client import Create, Delete, Operation, Set

CHUNK_BYTES: Final = 400_000
"""ZooKeeper limits a request to 1 MiB, including overhead besides paths and data."""

_OVERHEAD_BYTES: Final = 64


@dataclass(slots=True, kw_only=True)
class KnownNodes:
    """Znodes that exist, where the image alone does not tell."""

    # Config znodes, which may be empty.
    configs: dict[ConfigResource, None] = field(default_factory=dict)
    # Users that have a `clients` znode.
    client_folders: dict[ConfigResource, None] = field(default_factory=dict)
    # Missing parent znodes of partitions without state.
    missing: dict[str, None] = field(default_factory=dict)
    has_features: bool = False
    # Topics in /admin/delete_topics.
    deletions: dict[str, None] = field(default_factory=dict)


class ChangeOperations:
    """Converts changes to operations and tracks which znodes exist after them."""

    def __init__(
        self,
        image: ClusterImage,
        *,
        node_id: NodeId,
        controller_epoch: int,
        nodes: KnownNodes,
    ) -> None:
        self.image = image
        self._node_id = node_id
        self._controller_epoch = controller_epoch
        self._config_nodes = dict(nodes.configs)
        self._client_folders = dict(nodes.client_folders)
        self._missing = dict(nodes.missing)
        self._has_features = nodes.has_features
        self._deletions = dict(nodes.deletions)

    @property
    def deletions(self) -> Mapping[str, None]:
        """Topics in /admin/delete_topics after all drafted writes."""
        return self._deletions

    def add_deletions(self, names: Iterable[str]) -> None:
        """A tool created these znodes in /admin/delete_topics."""
        self._deletions.update(dict.fromkeys(names))

    def add_config(self, resource: ConfigResource) -> None:
        """This controller or a Kafka tool created a config znode."""
        self._config_nodes[resource] = None
        user = owning_user(resource)
        if user is not None:
            self._config_nodes[user] = self._client_folders[user] = None

    def operations(self, changes: Sequence[MetadataChange]) -> list[Operation]:
        """Return the operations of these changes, in an order that ZooKeeper accepts."""
        before = self.image
        after = apply(before, changes, before.version)
        written: list[Operation] = []
        assigned: dict[str, None] = {}
        for change in changes:
            written += self._of(change, before, assigned)
        # Write a topic's znode once, however many of its partitions are reassigned.
        for name in assigned:
            topic = after.topics.get(name)
            if topic is not None:
                written.append(Set(path=znode_paths.topic(name), data=znode_data.topic(topic)))
        if any(isinstance(change, FeatureFinalized) for change in changes):
            written.append(self._features(after))
        self.image = after
        return written

    def _of(
        self, change: MetadataChange, before: ClusterImage, assigned: dict[str, None]
    ) -> Iterable[Operation]:
        match change:
            case TopicCreated(topic):
                return self._created(topic)
            case TopicDeletionBegun(name):
                return self._deletion_begun(name)
            case TopicDeleted(name):
                assigned.pop(name, None)
                return self._deleted(before.topics[name])
            case PartitionsAdded(name, added):
                assigned[name] = None
                first = len(before.topics[name].partitions)
                return self._new_partitions(name, first, added)
            case PartitionChanged(name, number, partition):
                known = before.partition(name, number)
                if known is None or _places(known) != _places(partition):
                    assigned[name] = None
                return self._changed(name, number, partition)
            case ConfigsReplaced(resource, values):
                return self._configs(resource, values)
            case ProducerIdsAllocated(next_producer_id):
                start = before.next_producer_id
                data = znode_data.producer_ids(self._node_id, start=start, end=next_producer_id - 1)
                return [Set(path=znode_paths.PRODUCER_IDS, data=data)]
            case BrokerAdmitted(node_id, epoch):
                return [self._admitted(node_id, epoch)]
            case AclsReplaced():
                return acl_znodes.operations_of(change)
            case BrokerRegistered() | BrokerGone() | ControllerElected() | ControllerGone():
                return ()
            case FeatureFinalized():
                # All features are in one znode, written by `operations`.
                return ()
            case BrokerStopping() | ReplicasOffline():
                # Not stored: valid for the broker's session or the controller's term.
                return ()
            case TopicKnown() | PartitionDropped() | LogDirectoryFailed() | ControllerRegistered():
                raise AssertionError(f"{change} is local to one broker and cannot be stored")
            case _:
                assert_never(change)

    def _created(self, topic: TopicImage) -> Iterator[Operation]:
        resource = ConfigResource(ResourceType.TOPIC, topic.name)
        if resource not in self._config_nodes:
            # Kafka's tools expect the znode even if it is empty.
            self._config_nodes[resource] = None
            yield Create(path=znode_paths.config(resource), data=znode_data.configs({}))
        yield Create(path=znode_paths.topic(topic.name), data=znode_data.topic(topic))
        yield Create(path=znode_paths.partitions(topic.name))
        yield from self._new_partitions(topic.name, 0, topic.partitions)

    def _new_partitions(
        self, topic: str, first: int, added: Sequence[PartitionRegistration]
    ) -> Iterator[Operation]:
        for number, partition in enumerate(added, first):
            yield Create(path=znode_paths.partition(topic, number))
            yield self._state(topic, number, partition)

    def _changed(
        self, topic: str, number: int, partition: PartitionRegistration
    ) -> Iterator[Operation]:
        for folder in (znode_paths.partitions(topic), znode_paths.partition(topic, number)):
            if folder in self._missing:
                del self._missing[folder]
                yield Create(path=folder)
        yield self._state(topic, number, partition)

    def _state(self, topic: str, number: int, partition: PartitionRegistration) -> Operation:
        path = znode_paths.state(topic, number)
        data = znode_data.state(partition, controller_epoch=self._controller_epoch)
        if partition.partition_epoch == 0:
            return Create(path=path, data=data)
        return Set(path=path, data=data, version=partition.partition_epoch - 1)

    def _deletion_begun(self, name: str) -> Iterator[Operation]:
        if name not in self._deletions:
            self._deletions[name] = None
            yield Create(path=znode_paths.deletion(name), may_exist=True)

    def _deleted(self, topic: TopicImage) -> Iterator[Operation]:
        name = topic.name
        for number, partition in enumerate(topic.partitions):
            if partition.partition_epoch != znode_data.NOT_WRITTEN:
                yield Delete(path=znode_paths.state(name, number))
            yield from self._folder_deleted(znode_paths.partition(name, number))
        yield from self._folder_deleted(znode_paths.partitions(name))
        yield Delete(path=znode_paths.topic(name))
        resource = ConfigResource(ResourceType.TOPIC, name)
        if resource in self._config_nodes:
            del self._config_nodes[resource]
            yield Delete(path=znode_paths.config(resource))
            yield _announcement(resource)
        if name in self._deletions:
            del self._deletions[name]
            yield Delete(path=znode_paths.deletion(name), may_be_missing=True)

    def _folder_deleted(self, folder: str) -> Iterator[Operation]:
        if folder in self._missing:
            del self._missing[folder]
        else:
            yield Delete(path=folder)

    def _configs(self, resource: ConfigResource, values: Mapping[str, str]) -> Iterator[Operation]:
        path, data = znode_paths.config(resource), znode_data.configs(values)
        if resource in self._config_nodes:
            yield Set(path=path, data=data)
        else:
            yield from self._folders_of(resource)
            self._config_nodes[resource] = None
            yield Create(path=path, data=data)
        yield _announcement(resource)

    def _folders_of(self, resource: ConfigResource) -> Iterator[Operation]:
        """Create the parent znodes of a user's client."""
        user = owning_user(resource)
        if user is None:
            return
        if user not in self._config_nodes:
            self._config_nodes[user] = None
            yield Create(path=znode_paths.config(user), data=znode_data.configs({}))
        if user not in self._client_folders:
            self._client_folders[user] = None
            yield Create(path=znode_paths.client_folder(user))

    def _admitted(self, node_id: NodeId, epoch: int) -> Operation:
        path, data = znode_paths.admitted(node_id), znode_data.admitted(epoch)
        if node_id in self.image.admitted_epochs:
            return Set(path=path, data=data)
        return Create(path=path, data=data)

    def _features(self, after: ClusterImage) -> Operation:
        data = znode_data.features(after.features)
        if self._has_features:
            return Set(path=znode_paths.FEATURES, data=data)
        self._has_features = True
        return Create(path=znode_paths.FEATURES, data=data)


def chunks(
    operations: Sequence[Operation], limit_bytes: int = CHUNK_BYTES
) -> list[list[Operation]]:
    """Split operations, in order, into requests that ZooKeeper accepts."""
    pieces: list[list[Operation]] = [[]]
    room = limit_bytes
    for each in operations:
        size = _OVERHEAD_BYTES + len(each.path) + len(getattr(each, "data", b""))
        if size > room and pieces[-1]:
            pieces.append([])
            room = limit_bytes
        pieces[-1].append(each)
        room -= size
    return pieces


def _places(partition: PartitionRegistration) -> tuple[tuple[NodeId, ...], ...]:
    """The part of a partition that is in its topic's znode."""
    return partition.replicas, partition.adding, partition.removing


def _announcement(resource: ConfigResource) -> Operation:
    return Create(
        path=znode_paths.CONFIG_CHANGE_PREFIX,
        data=znode_data.config_change(znode_paths.config_entity(resource)),
        is_sequential=True,
    )
