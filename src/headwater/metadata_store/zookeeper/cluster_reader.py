"""Everything that ZooKeeper has of a cluster, read at once.

All reads are on their way together; the keeper bounds how many of them. What a reader would get
wrong: this is no snapshot. Only the controller may rely on it, after it has taken over, when nobody
else writes any more.
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
        """Facts that lead from an empty image to this, apart from who is up and who controls."""
        changes: list[MetadataChange] = [
            TopicCreated(znode_data.assembled(name, assignment, self.states.get(name, {})))
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
        """Configs and features only."""
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
    otherwise: Callable[[HeadwaterError], None],
) -> None:
    """All that a controller needs."""
    findings = ClusterContents()
    gathering = ParallelReads(zk_client, then=lambda: then(findings), otherwise=otherwise)
    _ask_for_configs(gathering, findings)
    gathering.children(znode_paths.TOPICS, partial(_ask_for_topics, gathering, findings))
    gathering.children(znode_paths.DELETE_TOPICS, partial(_take_deletions, findings))
    gathering.children(znode_paths.ADMITTED, partial(_ask_for_admitted, gathering, findings))
    gathering.data(znode_paths.PRODUCER_IDS, partial(_take_producer_id, findings), missing=_ignore)
    acl_znodes.ask_for_acls(gathering, findings.acls)
    gathering.seal()


def read_configs(
    zk_client: ZooKeeperClient,
    *,
    then: Callable[[ClusterContents], None],
    otherwise: Callable[[HeadwaterError], None],
) -> None:
    """What every broker needs: configs and features."""
    findings = ClusterContents()
    gathering = ParallelReads(zk_client, then=lambda: then(findings), otherwise=otherwise)
    _ask_for_configs(gathering, findings)
    gathering.seal()


def _ask_for_topics(gathering: ParallelReads, findings: ClusterContents, names: list[str]) -> None:
    for name in names:
        # A topic that goes at this moment is none.
        gathering.data(
            znode_paths.topic(name),
            partial(_take_topic, gathering, findings, name),
            missing=_ignore,
        )


def _take_topic(
    gathering: ParallelReads, findings: ClusterContents, name: str, data: bytes, _: Stat
) -> None:
    assignment = znode_data.read_topic(data)
    findings.assignments[name] = assignment
    states = findings.states[name] = {}
    for number in assignment.replicas:
        gathering.data(
            znode_paths.state(name, number),
            partial(_take_state, states, number),
            missing=partial(_look_for_folders, gathering, findings, name, number),
        )


def _take_state(
    states: dict[int, tuple[TopicPartitionStateZNode, int]], number: int, data: bytes, stat: Stat
) -> None:
    states[number] = znode_data.read_state(data), stat.version


def _look_for_folders(
    gathering: ParallelReads, findings: ClusterContents, name: str, number: int
) -> None:
    """Somebody has made the topic and not its partitions."""
    for folder in (znode_paths.partitions(name), znode_paths.partition(name, number)):
        gathering.existence(folder, partial(_note_folder, findings, folder))


def _note_folder(findings: ClusterContents, folder: str, is_there: bool) -> None:
    if not is_there:
        findings.nodes.missing[folder] = None


def _take_deletions(findings: ClusterContents, names: list[str]) -> None:
    findings.deletions = names
    findings.nodes.deletions = dict.fromkeys(names)


def _ask_for_admitted(
    gathering: ParallelReads, findings: ClusterContents, names: list[str]
) -> None:
    for name in names:
        node_id = NodeId(int(name))
        gathering.data(znode_paths.admitted(node_id), partial(_take_admitted, findings, node_id))


def _take_admitted(findings: ClusterContents, node_id: NodeId, data: bytes, _: Stat) -> None:
    findings.admitted[node_id] = znode_data.read_admitted(data)


def _take_producer_id(findings: ClusterContents, data: bytes, _: Stat) -> None:
    findings.next_producer_id = znode_data.read_next_producer_id(data)


def _ask_for_configs(gathering: ParallelReads, findings: ClusterContents) -> None:
    for kind in znode_paths.CONFIG_KINDS.values():
        gathering.children(f"/config/{kind}", partial(_ask_for_kind, gathering, findings, kind))
    gathering.data(znode_paths.FEATURES, partial(_take_features, findings), missing=_ignore)


def _ask_for_kind(
    gathering: ParallelReads, findings: ClusterContents, kind: str, names: list[str]
) -> None:
    for name in names:
        resource = znode_paths.resource_at(f"{kind}/{name}")
        if resource is not None:
            _ask_for_config(gathering, findings, resource)
            if resource.resource_type is ResourceType.USER:
                folder = znode_paths.client_folder(resource)
                gathering.existence(
                    folder, partial(_ask_for_clients, gathering, findings, resource)
                )


def _ask_for_config(
    gathering: ParallelReads, findings: ClusterContents, resource: ConfigResource
) -> None:
    gathering.data(
        znode_paths.config(resource), partial(_take_config, findings, resource), missing=_ignore
    )


def _ask_for_clients(
    gathering: ParallelReads, findings: ClusterContents, user: ConfigResource, is_there: bool
) -> None:
    """The clients of a user, whose nodes are below the user's."""
    if not is_there:
        return
    findings.nodes.client_folders[user] = None

    def found(names: list[str]) -> None:
        for name in names:
            resource = ConfigResource(ResourceType.USER, f"{user.name}/clients/{name}")
            _ask_for_config(gathering, findings, resource)

    gathering.children(znode_paths.client_folder(user), found)


def _take_config(findings: ClusterContents, resource: ConfigResource, data: bytes, _: Stat) -> None:
    findings.nodes.configs[resource] = None
    findings.configs[resource] = znode_data.read_configs(data)


def _take_features(findings: ClusterContents, data: bytes, _: Stat) -> None:
    findings.nodes.has_features = True
    findings.features = znode_data.read_features(data)


def _ignore() -> None:
    """Not being there says all there is to say."""
