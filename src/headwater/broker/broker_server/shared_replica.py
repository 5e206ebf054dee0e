"""The replica of the metadata log that both roles of a node share.

Kafka: SharedServer. `headwater.broker.controller_server` owns the replica; it starts before the
broker and stops after it.
"""

from typing import Protocol

from headwater.broker.controller_server.controller_server import ControllerServer
from headwater.broker.metrics.quorum_metrics import ReplicaSources
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import BrokerEndpoint, ClusterImage


class MetadataReplica(Protocol):
    """A broker's view of its replica: `MetadataObserver` or `SharedReplica`."""

    @property
    def image(self) -> ClusterImage:
        """The image of all records that are known to be committed."""

    @property
    def applied_offset(self) -> int:
        """The last offset that the image has."""

    @property
    def has_caught_up(self) -> bool:
        """Whether the image has records, and the leader has answered since."""

    @property
    def kraft_version(self) -> int: ...

    @property
    def metric_sources(self) -> ReplicaSources: ...

    @property
    def has_inconsistent_cluster_id(self) -> bool:
        """Whether a controller has answered that it belongs to another cluster."""

    @property
    def controller_id(self) -> NodeId | None: ...

    @property
    def controller_endpoint(self) -> BrokerEndpoint | None:
        """Where the active controller listens; None while it is not known."""

    def start(self) -> None: ...

    def sweep(self) -> None: ...

    def close(self) -> None: ...

    def close_log(self) -> None: ...


class SharedReplica:
    """`MetadataReplica` of a controller in the same process."""

    def __init__(self, controller: ControllerServer, listener_name: str) -> None:
        self._controller = controller
        self._listener_name = listener_name

    @property
    def image(self) -> ClusterImage:
        return self._controller.loader.image

    @property
    def applied_offset(self) -> int:
        return self._controller.loader.end.offset - 1

    @property
    def has_caught_up(self) -> bool:
        controller = self._controller
        return controller.loader.has_records and controller.raft.client.has_fetched_from_leader

    @property
    def kraft_version(self) -> int:
        return self._controller.raft.client.kraft_version

    @property
    def metric_sources(self) -> ReplicaSources:
        return self._controller.metric_sources

    @property
    def has_inconsistent_cluster_id(self) -> bool:
        return self._controller.raft.client.has_inconsistent_cluster_id

    @property
    def controller_id(self) -> NodeId | None:
        leader_id = self._controller.raft.client.leader_and_epoch.leader_id
        return None if leader_id is None else NodeId(leader_id)

    @property
    def controller_endpoint(self) -> BrokerEndpoint | None:
        node = self._controller.raft.client.leader_node
        if node is None:
            return None
        return BrokerEndpoint(listener=self._listener_name, host=node.host, port=node.port)

    def start(self) -> None:
        """Nothing to do: the controller has started the replica."""

    def sweep(self) -> None:
        """Nothing to do: the controller sweeps the replica's connections."""

    def close(self) -> None:
        self._controller.broker = None

    def close_log(self) -> None:
        """Nothing to do: the controller still uses the log."""
