"""Notice that brokers and the active controller have ended, before their timeouts.

Each voter watches the leader of the quorum and stands for election when the leader refuses
connections. Each controller watches all unfenced brokers, and the active one fences a broker that
refuses connections.

Note: only a broker that was reached before can be found to refuse. A controller that becomes active
because another combined node was killed has to fence the broker of that node, so the other
controllers watch brokers, too.
"""

from collections.abc import Callable, Mapping

from headwater.broker.inter_broker.liveness import ConnectionLiveness
from headwater.common.ids import NodeId
from headwater.common.security_protocol import SecurityProtocol
from headwater.metadata.cluster_image import BrokerEndpoint, BrokerRegistration, ClusterImage
from headwater.metadata.ports.liveness import LivenessRole, LivenessWatch
from headwater.raft.election_state import LeaderAndEpoch
from headwater.raft.voter_set import Node


class BrokerEndpoints:
    """The watched endpoint of each broker: that for brokers, or else one without TLS.

    A controller without the listener's TLS settings cannot watch it, and leaves the broker to its
    session timeout.
    """

    def __init__(self, image: Callable[[], ClusterImage], *, listener: str, has_tls: bool) -> None:
        self._image = image
        self._listener = listener
        self._has_tls = has_tls

    def endpoint(self, node_id: NodeId) -> BrokerEndpoint | None:
        broker = self._image().brokers.get(node_id)
        if broker is None:
            return None
        preferred = broker.endpoint(self._listener)
        candidates = broker.endpoints if preferred is None else (preferred,)
        return next(
            (
                each
                for each in candidates
                if SecurityProtocol(each.security_protocol).is_tls is self._has_tls
            ),
            None,
        )


class LeaderEndpoint:
    """The controller listener of the leader of the quorum."""

    def __init__(self, leader_node: Callable[[], Node | None]) -> None:
        self._leader_node = leader_node

    def endpoint(self, node_id: NodeId) -> BrokerEndpoint | None:
        node = self._leader_node()
        if node is None or node.id != node_id:
            return None
        return BrokerEndpoint(listener="", host=node.host, port=node.port)


class ControllerLiveness:
    """Watches of one controller, for its brokers and for the leader of the quorum."""

    def __init__(
        self,
        node_id: NodeId,
        *,
        brokers: ConnectionLiveness,
        controllers: ConnectionLiveness,
        on_broker_refused: Callable[[BrokerRegistration], None],
        on_leader_refused: Callable[[LeaderAndEpoch], None],
    ) -> None:
        self._node_id = node_id
        self._brokers = brokers
        self._controllers = controllers
        self._broker_refused = on_broker_refused
        self._leader_refused = on_leader_refused
        self._watched: Mapping[NodeId, BrokerRegistration] = {}
        self._role = LivenessRole.STANDBY
        self._watches: dict[NodeId, tuple[int, LivenessWatch]] = {}
        self._leader: LeaderAndEpoch | None = None
        self._leader_watch: LivenessWatch | None = None

    def watch_brokers(self, image: ClusterImage, *, is_active: bool) -> None:
        """Watch the unfenced brokers of an image."""
        role = LivenessRole.REGISTRATION if is_active else LivenessRole.STANDBY
        if image.brokers is self._watched and role is self._role:
            return
        for node_id, (epoch, watch) in list(self._watches.items()):
            broker = image.brokers.get(node_id)
            if role is not self._role or broker is None or broker.epoch != epoch:
                watch.end()
                del self._watches[node_id]
        self._watched, self._role = image.brokers, role
        for broker in image.brokers.values():
            if broker.node_id != self._node_id and broker.node_id not in self._watches:
                self._watches[broker.node_id] = broker.epoch, self._watch(broker)

    def watch_leader(self, leader: LeaderAndEpoch) -> None:
        """Watch the leader of an epoch, if there is one and it is another node."""
        if leader == self._leader:
            return
        if self._leader_watch is not None:
            self._leader_watch.end()
        self._leader, self._leader_watch = leader, None
        if leader.leader_id is not None and leader.leader_id != self._node_id:
            self._leader_watch = self._controllers.watch(
                NodeId(leader.leader_id),
                LivenessRole.CONTROL,
                on_refused=lambda: self._leader_refused(leader),
            )

    def sweep(self) -> None:
        """Give up connection attempts whose deadline has passed."""
        self._brokers.sweep()
        self._controllers.sweep()

    def close(self) -> None:
        self._brokers.close()
        self._controllers.close()

    def _watch(self, broker: BrokerRegistration) -> LivenessWatch:
        def refused() -> None:
            if self._role is LivenessRole.REGISTRATION:
                self._broker_refused(broker)

        return self._brokers.watch(broker.node_id, self._role, on_refused=refused)
