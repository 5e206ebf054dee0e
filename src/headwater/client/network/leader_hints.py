"""Apply the new leaders that Produce and Fetch responses contain (KIP-951)."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from headwater.client.network.bootstrap_addresses import BootstrapAddress
from headwater.client.network.cluster_client import ClusterClient
from headwater.client.network.cluster_metadata import NO_NODE, BrokerNode
from headwater.common.ids import TopicPartition


class NodeEndpoint(Protocol):
    """A broker endpoint, as the responses of several APIs contain it."""

    @property
    def node_id(self) -> int: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def rack(self) -> str | None: ...


class LeaderHint(NamedTuple):
    """The current leader of a partition."""

    partition: TopicPartition
    leader_id: int
    leader_epoch: int


def learn_leaders(
    cluster: ClusterClient, hints: Iterable[LeaderHint], endpoints: Iterable[NodeEndpoint]
) -> set[TopicPartition]:
    """Apply leaders to the metadata; return the partitions for which it changed."""
    nodes = {
        each.node_id: BrokerNode(
            node_id=each.node_id, address=BootstrapAddress(each.host, each.port), rack=each.rack
        )
        for each in endpoints
    }
    return {
        each.partition
        for each in hints
        if each.leader_id != NO_NODE
        and cluster.learn_leader(
            *each.partition,
            leader_id=each.leader_id,
            leader_epoch=each.leader_epoch,
            node=nodes.get(each.leader_id),
        )
    }
