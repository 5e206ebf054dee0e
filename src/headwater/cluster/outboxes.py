"""The outboxes of all brokers that are up, each for one registration."""

from collections.abc import Callable, Iterable

from headwater.cluster.announcements import News
from headwater.cluster.colleagues import Colleagues
from headwater.cluster.image import Broker, ClusterImage
from headwater.cluster.outbox import Later, MetadataStates, Order, Outbox
from headwater.model.ids import NodeId, TopicPartition
from headwater.wire.lifting import Message


class Outboxes:
    """Whom the controller tells; a `Sender`."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        colleagues: Colleagues,
        later: Later,
        timeout_ms: int,
        image: Callable[[], ClusterImage],
        held_by: Callable[[NodeId], Iterable[TopicPartition]],
        heard: Callable[[Outbox, Order, Message], None],
        deposed: Callable[[], None],
    ) -> None:
        self.node_id = node_id
        self.colleagues = colleagues
        self.later = later
        self.timeout_ms = timeout_ms
        self.held_by = held_by
        self.heard = heard
        self.deposed = deposed
        self._image = image
        self._states = MetadataStates()
        self._by_node: dict[NodeId, Outbox] = {}

    @property
    def image(self) -> ClusterImage:
        return self._image()

    @property
    def are_idle(self) -> bool:
        """Whether every broker has heard everything."""
        return all(each.is_idle for each in self._by_node.values())

    def __contains__(self, broker: Broker) -> bool:
        """Whether this registration of a broker is being told."""
        outbox = self._by_node.get(broker.node_id)
        return outbox is not None and outbox.broker.epoch == broker.epoch

    def get(self, node_id: NodeId) -> Outbox | None:
        return self._by_node.get(node_id)

    def open(self, broker: Broker) -> Outbox:
        """Tell a broker everything, and from now on whatever changes."""
        assert broker.node_id not in self._by_node, "a former registration is still told"
        outbox = self._by_node[broker.node_id] = Outbox(broker, self, self._states)
        outbox.tell_everything()
        return outbox

    def tell(self, news: News) -> None:
        if news.has_brokers or news.metadata or news.gone or news.roles or news.stops:
            for outbox in self._by_node.values():
                outbox.tell(news)

    def close(self, node_id: NodeId) -> None:
        outbox = self._by_node.pop(node_id, None)
        if outbox is not None:
            outbox.close()

    def close_all(self) -> None:
        for node_id in list(self._by_node):
            self.close(node_id)
