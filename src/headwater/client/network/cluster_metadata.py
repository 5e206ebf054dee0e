"""Metadata of a cluster as a client knows it: brokers, topics, leaders. Immutable.

A response gives a new value, so that a caller can hold one across awaits and see a consistent
state.

Note: a response may be older than what is known, because brokers learn at different speeds. A
leader with a lower epoch than the known one is ignored while the topic id is the same (KIP-320).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headwater.client.network.bootstrap_addresses import BootstrapAddress
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from headwater.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

NO_NODE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNode:
    """A broker and its address."""

    node_id: int
    address: BootstrapAddress
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition. Its leader is `NO_NODE` if there is none."""

    partition: int
    leader_id: int
    leader_epoch: int = NO_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    # Only from `describe_topics`.
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """One topic; `partitions` is ordered and without gaps, unless there is an error."""

    name: str
    topic_id: TopicId = NO_TOPIC_ID
    is_internal: bool = False
    partitions: tuple[PartitionView, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """A snapshot of the cluster."""

    brokers: Mapping[int, BrokerNode] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    cluster_id: str | None = None
    controller_id: int = NO_NODE

    def topic_named(self, topic_id: TopicId) -> str | None:
        """The name of a topic by id. Searches all topics: use it once per response."""
        for topic in self.topics.values():
            if topic.topic_id == topic_id:
                return topic.name
        return None

    def partition(self, topic: str, partition: int) -> PartitionView | None:
        view = self.topics.get(topic)
        if view is None or not 0 <= partition < len(view.partitions):
            return None
        return view.partitions[partition]

    def racks_of(self, topics: Iterable[str]) -> dict[TopicPartition, frozenset[str]]:
        """The racks of the replicas of topics; empty if no broker has a rack."""
        racks = {each.node_id: each.rack for each in self.brokers.values() if each.rack}
        if not racks:
            return {}
        return {
            TopicPartition(name, view.partition): frozenset(
                racks[node_id] for node_id in view.replicas if node_id in racks
            )
            for name in topics
            if name in self.topics
            for view in self.topics[name].partitions
        }

    def merged(self, response: MetadataResponse, *, all_topics: bool) -> "ClusterMetadata":
        """Apply a response. One for all topics drops topics that it does not contain."""
        topics = {} if all_topics else dict(self.topics)
        for answer in response.topics:
            if answer.name:
                topics[answer.name] = _topic(answer, self.topics.get(answer.name))
        brokers = {
            each.node_id: BrokerNode(
                node_id=each.node_id, address=BootstrapAddress(each.host, each.port), rack=each.rack
            )
            for each in response.brokers
        }
        return ClusterMetadata(
            brokers=brokers,
            topics=topics,
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
        )

    def with_leader(
        self,
        topic: str,
        partition: int,
        *,
        leader_id: int,
        leader_epoch: int,
        node: BrokerNode | None,
    ) -> "ClusterMetadata":
        """Apply a new leader from a response (KIP-951); an older epoch changes nothing."""
        known = self.partition(topic, partition)
        if known is None or leader_epoch <= known.leader_epoch:
            return self
        brokers = {**self.brokers, leader_id: node} if node is not None else self.brokers
        if leader_id not in brokers:
            return self
        view = self.topics[topic]
        led = replace(known, leader_id=leader_id, leader_epoch=leader_epoch, error=ErrorCode.NONE)
        partitions = (*view.partitions[:partition], led, *view.partitions[partition + 1 :])
        topics = {**self.topics, topic: replace(view, partitions=partitions)}
        return replace(self, brokers=brokers, topics=topics)

    def without(self, topics: frozenset[str]) -> "ClusterMetadata":
        kept = {name: view for name, view in self.topics.items() if name not in topics}
        return replace(self, topics=kept)


def _topic(answer: MetadataResponseTopic, known: TopicView | None) -> TopicView:
    assert answer.name is not None
    is_same = known is not None and known.topic_id == answer.topic_id
    partitions = []
    for index, each in enumerate(sorted(answer.partitions, key=lambda one: one.partition_index)):
        if each.partition_index != index:
            # A gap would shift later partitions; the rest comes with a later response.
            break
        view = PartitionView(
            partition=index,
            leader_id=each.leader_id,
            leader_epoch=each.leader_epoch,
            replicas=each.replica_nodes,
            isr=each.isr_nodes,
            offline_replicas=each.offline_replicas,
            error=each.error_code,
        )
        if is_same and known is not None and index < len(known.partitions):
            view = _newer(view, known.partitions[index])
        partitions.append(view)
    return TopicView(
        name=answer.name,
        topic_id=answer.topic_id,
        is_internal=answer.is_internal,
        partitions=tuple(partitions),
        error=answer.error_code,
    )


def _newer(answer: PartitionView, known: PartitionView) -> PartitionView:
    is_older = answer.leader_epoch != NO_EPOCH and answer.leader_epoch < known.leader_epoch
    return known if is_older else answer
