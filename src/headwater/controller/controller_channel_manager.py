"""The outboxes of all brokers that are up, each for one registration."""

from collections.abc import Callable, Iterable

from headwater.common.ids import NodeId, TopicPartition
from headwater.controller.controller_channel import ControllerChannel, Later, MetadataStates, Order
from headwater.metadata.cluster_image import BrokerRegistration, ClusterImage
from headwater.metadata.control_requests import ControlRequestBatch
from headwater.metadata.ports.inter_broker_client import InterBrokerClient
from headwater.protocol.older_versions import Message


class ControllerChannelManager:
    """Whom the controller tells; a `Sender`."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        inter_broker_client: InterBrokerClient,
        later: Later,
        timeout_ms: int,
        image: Callable[[], ClusterImage],
        held_by: Callable[[NodeId], Iterable[TopicPartition]],
        heard: Callable[[ControllerChannel, Order, Message], None],
        deposed: Callable[[], None],
    ) -> None:
        self.node_id = node_id
        self.inter_broker_client = inter_broker_client
        self.later = later
        self.timeout_ms = timeout_ms
        self.held_by = held_by
        self.heard = heard
        self.deposed = deposed
        self._image = image
        self._states = MetadataStates()
        self._by_node: dict[NodeId, ControllerChannel] = {}

    @property
    def image(self) -> ClusterImage:
        return self._image()

    @property
    def are_idle(self) -> bool:
        """Whether every broker has heard everything."""
        return all(each.is_idle for each in self._by_node.values())

    def __contains__(self, broker: BrokerRegistration) -> bool:
        """Whether this registration of a broker is being told."""
        controller_channel = self._by_node.get(broker.node_id)
        return controller_channel is not None and controller_channel.broker.epoch == broker.epoch

    def get(self, node_id: NodeId) -> ControllerChannel | None:
        return self._by_node.get(node_id)

    def open(self, broker: BrokerRegistration) -> ControllerChannel:
        """Tell a broker everything, and from now on whatever changes."""
        assert broker.node_id not in self._by_node, "a former registration is still told"
        controller_channel = self._by_node[broker.node_id] = ControllerChannel(
            broker, self, self._states
        )
        controller_channel.tell_everything()
        return controller_channel

    def tell(self, news: ControlRequestBatch) -> None:
        if news.has_brokers or news.metadata or news.gone or news.roles or news.stops:
            for controller_channel in self._by_node.values():
                controller_channel.tell(news)

    def close(self, node_id: NodeId) -> None:
        controller_channel = self._by_node.pop(node_id, None)
        if controller_channel is not None:
            controller_channel.close()

    def close_all(self) -> None:
        for node_id in list(self._by_node):
            self.close(node_id)
