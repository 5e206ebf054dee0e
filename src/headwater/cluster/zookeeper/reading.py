"""Everything that ZooKeeper has of a cluster, read at once.

All reads are on their way together; the keeper bounds how many of them. What a reader would get
wrong: this is no snapshot. Only the controller may rely on it, after it has taken over, when nobody
else writes any more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from headwater.cluster.facts import (
    AclsReplaced,
    BrokerAdmitted,
    ConfigsReplaced,
    Fact,
    FeatureFinalized,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeletionBegun,
)
from headwater.cluster.image import ConfigResource
from headwater.cluster.zookeeper import acl_nodes, contents, paths
from headwater.cluster.zookeeper.contents import Assignment, PartitionState
from headwater.cluster.zookeeper.gathering import Gathering
from headwater.cluster.zookeeper.keeper import Keeper, Stat
from headwater.cluster.zookeeper.operations import KnownNodes
from headwater.model.config_terms import ResourceType
from headwater.model.failures import HeadwaterError
from headwater.model.ids import NodeId


@dataclass(slots=True, eq=False)
class Findings:
    """What was read."""

    nodes: KnownNodes = field(default_factory=KnownNodes)
    assignments: dict[str, Assignment] = field(default_factory=dict)
    states: dict[str, dict[int, tuple[PartitionState, int]]] = field(default_factory=dict)
    configs: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    deletions: Sequence[str] = ()
    admitted: dict[NodeId, int] = field(default_factory=dict)
    acls: acl_nodes.Found = field(default_factory=dict)

    def facts(self) -> list[Fact]:
        """Facts that lead from an empty image to this, apart from who is up and who controls."""
        facts: list[Fact] = [
            TopicCreated(contents.assembled(name, assignment, self.states.get(name, {})))
            for name, assignment in sorted(self.assignments.items())
        ]
        facts += [TopicDeletionBegun(name) for name in self.deletions if name in self.assignments]
        facts += [
            BrokerAdmitted(node_id, epoch) for node_id, epoch in sorted(self.admitted.items())
        ]
        facts += self.config_facts()
        if self.next_producer_id:
            facts.append(ProducerIdsAllocated(self.next_producer_id))
        facts += [AclsReplaced(pattern, acls) for pattern, acls in sorted(self.acls.items())]
        return facts

    def config_facts(self) -> list[Fact]:
        """Configs and features only."""
        facts: list[Fact] = [
            ConfigsReplaced(resource, values)
            for resource, values in sorted(self.configs.items())
            if values
        ]
        facts += [FeatureFinalized(name, level) for name, level in self.features.items()]
        return facts


def read_all(
    keeper: Keeper,
    *,
    then: Callable[[Findings], None],
    otherwise: Callable[[HeadwaterError], None],
) -> None:
    """All that a controller needs."""
    findings = Findings()
    gathering = Gathering(keeper, then=lambda: then(findings), otherwise=otherwise)
    _ask_for_configs(gathering, findings)
    gathering.children(paths.TOPICS, partial(_ask_for_topics, gathering, findings))
    gathering.children(paths.DELETE_TOPICS, partial(_take_deletions, findings))
    gathering.children(paths.ADMITTED, partial(_ask_for_admitted, gathering, findings))
    gathering.data(paths.PRODUCER_IDS, partial(_take_producer_id, findings), missing=_ignore)
    acl_nodes.ask_for_acls(gathering, findings.acls)
    gathering.seal()


def read_configs(
    keeper: Keeper,
    *,
    then: Callable[[Findings], None],
    otherwise: Callable[[HeadwaterError], None],
) -> None:
    """What every broker needs: configs and features."""
    findings = Findings()
    gathering = Gathering(keeper, then=lambda: then(findings), otherwise=otherwise)
    _ask_for_configs(gathering, findings)
    gathering.seal()


def _ask_for_topics(gathering: Gathering, findings: Findings, names: list[str]) -> None:
    for name in names:
        # A topic that goes at this moment is none.
        gathering.data(
            paths.topic(name), partial(_take_topic, gathering, findings, name), missing=_ignore
        )


def _take_topic(gathering: Gathering, findings: Findings, name: str, data: bytes, _: Stat) -> None:
    assignment = contents.read_topic(data)
    findings.assignments[name] = assignment
    states = findings.states[name] = {}
    for number in assignment.replicas:
        gathering.data(
            paths.state(name, number),
            partial(_take_state, states, number),
            missing=partial(_look_for_folders, gathering, findings, name, number),
        )


def _take_state(
    states: dict[int, tuple[PartitionState, int]], number: int, data: bytes, stat: Stat
) -> None:
    states[number] = contents.read_state(data), stat.version


def _look_for_folders(gathering: Gathering, findings: Findings, name: str, number: int) -> None:
    """Somebody has made the topic and not its partitions."""
    for folder in (paths.partitions(name), paths.partition(name, number)):
        gathering.existence(folder, partial(_note_folder, findings, folder))


def _note_folder(findings: Findings, folder: str, is_there: bool) -> None:
    if not is_there:
        findings.nodes.missing[folder] = None


def _take_deletions(findings: Findings, names: list[str]) -> None:
    findings.deletions = names
    findings.nodes.deletions = dict.fromkeys(names)


def _ask_for_admitted(gathering: Gathering, findings: Findings, names: list[str]) -> None:
    for name in names:
        node_id = NodeId(int(name))
        gathering.data(paths.admitted(node_id), partial(_take_admitted, findings, node_id))


def _take_admitted(findings: Findings, node_id: NodeId, data: bytes, _: Stat) -> None:
    findings.admitted[node_id] = contents.read_admitted(data)


def _take_producer_id(findings: Findings, data: bytes, _: Stat) -> None:
    findings.next_producer_id = contents.read_next_producer_id(data)


def _ask_for_configs(gathering: Gathering, findings: Findings) -> None:
    for kind in paths.CONFIG_KINDS.values():
        gathering.children(f"/config/{kind}", partial(_ask_for_kind, gathering, findings, kind))
    gathering.data(paths.FEATURES, partial(_take_features, findings), missing=_ignore)


def _ask_for_kind(gathering: Gathering, findings: Findings, kind: str, names: list[str]) -> None:
    for name in names:
        resource = paths.resource_at(f"{kind}/{name}")
        if resource is not None:
            _ask_for_config(gathering, findings, resource)
            if resource.resource_type is ResourceType.USER:
                folder = paths.client_folder(resource)
                gathering.existence(
                    folder, partial(_ask_for_clients, gathering, findings, resource)
                )


def _ask_for_config(gathering: Gathering, findings: Findings, resource: ConfigResource) -> None:
    gathering.data(
        paths.config(resource), partial(_take_config, findings, resource), missing=_ignore
    )


def _ask_for_clients(
    gathering: Gathering, findings: Findings, user: ConfigResource, is_there: bool
) -> None:
    """The clients of a user, whose nodes are below the user's."""
    if not is_there:
        return
    findings.nodes.client_folders[user] = None

    def found(names: list[str]) -> None:
        for name in names:
            resource = ConfigResource(ResourceType.USER, f"{user.name}/clients/{name}")
            _ask_for_config(gathering, findings, resource)

    gathering.children(paths.client_folder(user), found)


def _take_config(findings: Findings, resource: ConfigResource, data: bytes, _: Stat) -> None:
    findings.nodes.configs[resource] = None
    findings.configs[resource] = contents.read_configs(data)


def _take_features(findings: Findings, data: bytes, _: Stat) -> None:
    findings.nodes.has_features = True
    findings.features = contents.read_features(data)


def _ignore() -> None:
    """Not being there says all there is to say."""
