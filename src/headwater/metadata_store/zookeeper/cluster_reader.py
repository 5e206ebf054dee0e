"""Read all cluster metadata from ZooKeeper.

All reads are issued together; the ZooKeeper client bounds how many are in flight.

Note: this is not a snapshot. Only the elected controller may rely on it, when no other process
writes any more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from headwater.common.config_types import ResourceType
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId
from headwater.metadata.changes import (
    AclsReplaced,
    BrokerAdmitted,
    ConfigsReplaced,
    FeatureFinalized,
    MetadataChange,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeletionBegun,
)
from headwater.metadata.cluster_image import ConfigResource
from headwater.metadata_store.zookeeper import acl_znodes, znode_data, znode_paths
from headwater.metadata_store.zookeeper.change_operations import KnownNodes
from headwater.metadata_store.zookeeper.parallel_reads import ParallelReads
from headwater.metadata_store.zookeeper.znode_data import Assignment, TopicPartitionStateZNode
from headwater.metadata_store.zookeeper.zookeeper_client import Stat, ZooKeeperClient


@dataclass(slots=True, eq=False)
class ClusterContents:
    """What was read."""

    nodes: KnownNodes = field(default_factory=KnownNodes)
    assignments: dict[str, Assignment] = field(default_factory=dict)
    states: dict[str, dict[int, tuple[TopicPartitionStateZNode, int]]] = field(default_factory=dict)
    configs: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    deletions: Sequence[str] = ()
    admitted: dict[NodeId, int] = field(default_factory=dict)
    acls: acl_znodes.Found = field(default_factory=dict)

    def changes(self) -> list[MetadataChange]:
        """Return changes that build this state from an empty image, without brokers."""
        changes: list[MetadataChange] = [
            TopicCreated(znode_data.topic_image(name, assignment, self.states.get(name, {})))
            for name, assignment in sorted(self.assignments.items())
        ]
        changes += [TopicDeletionBegun(name) for name in self.deletions if name in self.assignments]
        changes += [
            BrokerAdmitted(node_id, epoch) for node_id, epoch in sorted(self.admitted.items())
        ]
        changes += self.config_changes()
        if self.next_producer_id:
            changes.append(ProducerIdsAllocated(self.next_producer_id))
        changes += [AclsReplaced(pattern, acls) for pattern, acls in sorted(self.acls.items())]
        return changes

    def config_changes(self) -> list[MetadataChange]:
        """Return configs and features only."""
        changes: list[MetadataChange] = [
            ConfigsReplaced(resource, values)
            for resource, values in sorted(self.configs.items())
            if values
        ]
        changes += [FeatureFinalized(name, level) for name, level in self.features.items()]
        return changes


def read_all(
    zk_client: ZooKeeperClient,
    *,
    then: Callable[[ClusterContents], None],
    on_error: Callable[[HeadwaterError], None],
) -> None:
    """Read everything that a controller needs."""
    contents = ClusterContents()
    reads = ParallelReads(zk_client, then=lambda: then(contents), on_error=on_error)
    _read_configs(reads, contents)
    reads.children(znode_paths.TOPICS, partial(_read_topics, reads, contents))
    reads.children(znode_paths.DELETE_TOPICS, partial(_take_deletions, contents))
    reads.children(znode_paths.ADMITTED, partial(_read_admitted, reads, contents))
    reads.data(znode_paths.PRODUCER_IDS, partial(_take_producer_id, contents), missing=_ignore)
    acl_znodes.read_acls(reads, contents.acls)
    reads.finish()


def read_configs(
    zk_client: ZooKeeperClient,
    *,
    then: Callable[[ClusterContents], None],
    on_error: Callable[[HeadwaterError], None],
) -> None:
    """Read what every broker needs: configs and features."""
    contents = ClusterContents()
    reads = ParallelReads(zk_client, then=lambda: then(contents), on_error=on_error)
    _read_configs(reads, contents)
    reads.finish()


def _read_topics(reads: ParallelReads, contents: ClusterContents, names: list[str]) -> None:
    for name in names:
        # A topic that is deleted meanwhile is skipped.
        reads.data(
            znode_paths.topic(name),
            partial(_take_topic, reads, contents, name),
            missing=_ignore,
        )


def _take_topic(
    reads: ParallelReads, contents: ClusterContents, name: str, data: bytes, _: Stat
) -> None:
    assignment = znode_data.read_topic(data)
    contents.assignments[name] = assignment
    states = contents.states[name] = {}
    for number in assignment.replicas:
        reads.data(
            znode_paths.state(name, number),
            partial(_take_state, states, number),
            missing=partial(_check_folders, reads, contents, name, number),
        )


def _take_state(
    states: dict[int, tuple[TopicPartitionStateZNode, int]], number: int, data: bytes, stat: Stat
) -> None:
    states[number] = znode_data.read_state(data), stat.version


def _check_folders(reads: ParallelReads, contents: ClusterContents, name: str, number: int) -> None:
    """Check for the parent znodes of a topic that a tool created without them."""
    for folder in (znode_paths.partitions(name), znode_paths.partition(name, number)):
        reads.existence(folder, partial(_add_missing, contents, folder))


def _add_missing(contents: ClusterContents, folder: str, exists: bool) -> None:
    if not exists:
        contents.nodes.missing[folder] = None


def _take_deletions(contents: ClusterContents, names: list[str]) -> None:
    contents.deletions = names
    contents.nodes.deletions = dict.fromkeys(names)


def _read_admitted(reads: ParallelReads, contents: ClusterContents, names: list[str]) -> None:
    for name in names:
        node_id = NodeId(int(name))
        reads.data(znode_paths.admitted(node_id), partial(_take_admitted, contents, node_id))


def _take_admitted(contents: ClusterContents, node_id: NodeId, data: bytes, _: Stat) -> None:
    contents.admitted[node_id] = znode_data.read_admitted(data)


def _take_producer_id(contents: ClusterContents, data: bytes, _: Stat) -> None:
    contents.next_producer_id = znode_data.read_next_producer_id(data)


def _read_configs(reads: ParallelReads, contents: ClusterContents) -> None:
    for kind in znode_paths.CONFIG_KINDS.values():
        reads.children(f"/config/{kind}", partial(_read_config_kind, reads, contents, kind))
    reads.data(znode_paths.FEATURES, partial(_take_features, contents), missing=_ignore)


def _read_config_kind(
    reads: ParallelReads, contents: ClusterContents, kind: str, names: list[str]
) -> None:
    for name in names:
        resource = znode_paths.resource_at(f"{kind}/{name}")
        if resource is not None:
            _read_config(reads, contents, resource)
            if resource.resource_type is ResourceType.USER:
                folder = znode_paths.client_folder(resource)
                reads.existence(folder, partial(_read_clients, reads, contents, resource))


def _read_config(reads: ParallelReads, contents: ClusterContents, resource: ConfigResource) -> None:
    reads.data(
        znode_paths.config(resource), partial(_take_config, contents, resource), missing=_ignore
    )


def _read_clients(
    reads: ParallelReads, contents: ClusterContents, user: ConfigResource, exists: bool
) -> None:
    """Read the client ids of a user, whose znodes are below the user's."""
    if not exists:
        return
    contents.nodes.client_folders[user] = None

    def found(names: list[str]) -> None:
        for name in names:
            resource = ConfigResource(ResourceType.USER, f"{user.name}/clients/{name}")
            _read_config(reads, contents, resource)

    reads.children(znode_paths.client_folder(user), found)


def _take_config(contents: ClusterContents, resource: ConfigResource, data: bytes, _: Stat) -> None:
    contents.nodes.configs[resource] = None
    contents.configs[resource] = znode_data.read_configs(data)


def _take_features(contents: ClusterContents, data: bytes, _: Stat) -> None:
    contents.nodes.has_features = True
    contents.features = znode_data.read_features(data)


def _ignore() -> None:
    """A missing znode needs no action."""
