"""Topics on their way out: each goes when the last of its replicas has gone.

Which topics shall go is in the image; how far each replica is, is remembered here only, and a new
controller begins again, which costs one more order per replica. An order that cannot be carried
out, because the broker is down or its disk has failed, waits for the broker to come again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.controller.replica_states import REPLICA_MOVES, ReplicaState
from headwater.metadata.changes import TopicDeleted
from headwater.metadata.cluster_image import ClusterImage, TopicImage
from headwater.metadata.control_requests import EPOCH_DURING_DELETE, ReplicaStop
from headwater.metadata.controller_result import ControllerResult

_STARTED = ReplicaState.DELETION_STARTED
_SUCCESSFUL = ReplicaState.DELETION_SUCCESSFUL
_INELIGIBLE = ReplicaState.DELETION_INELIGIBLE

Orders = dict[NodeId, dict[TopicPartition, ReplicaStop]]
_STOP = ReplicaStop(EPOCH_DURING_DELETE, is_deleted=True)


def finish_deletion(
    image: ClusterImage, topic_name: str, topic_id: TopicId
) -> ControllerResult[None]:
    """The topic goes, unless it has gone already."""
    topic = image.topics.get(topic_name)
    if topic is None or topic.topic_id != topic_id:
        return ControllerResult((), None)
    return ControllerResult([TopicDeleted(topic_name)], None)


@dataclass(slots=True)
class _Deletion:
    topic_id: TopicId
    replicas: dict[tuple[NodeId, int], ReplicaState] = field(default_factory=dict)
    # Those that are left, so that the last answer is noticed without a search.
    open_count: int = 0

    def move(self, node_id: NodeId, number: int, state: ReplicaState) -> None:
        before = self.replicas[node_id, number]
        assert state in REPLICA_MOVES[before], f"a replica went from {before} to {state}"
        self.replicas[node_id, number] = state
        self.open_count -= state is _SUCCESSFUL


class TopicDeletions:
    """How far the deletion of each topic has come."""

    def __init__(self) -> None:
        self._topics: dict[str, _Deletion] = {}

    def __len__(self) -> int:
        return len(self._topics)

    def begin(self, topic: TopicImage, up: Iterable[NodeId]) -> Orders:
        """A topic shall go. Gives the orders for those brokers that are up."""
        deletion = self._topics[topic.name] = _Deletion(topic.topic_id)
        for number, partition in enumerate(topic.partitions):
            for node_id in partition.replicas:
                deletion.replicas[node_id, number] = ReplicaState.OFFLINE
                deletion.open_count += 1
        orders: Orders = {}
        alive = dict.fromkeys(up)
        for node_id, number in deletion.replicas:
            if node_id in alive:
                deletion.move(node_id, number, _STARTED)
                orders.setdefault(node_id, {})[TopicPartition(topic.name, number)] = _STOP
            else:
                deletion.move(node_id, number, _INELIGIBLE)
        return orders

    def answered(self, node_id: NodeId, name: TopicPartition, error: ErrorCode) -> TopicId | None:
        """A broker has answered an order; gives the topic's id when that was the last one."""
        deletion = self._topics.get(name.topic)
        if deletion is None or deletion.replicas.get((node_id, name.partition)) is not _STARTED:
            # An answer to an order of another kind, or to one that was given twice.
            return None
        deletion.move(node_id, name.partition, _INELIGIBLE if error else _SUCCESSFUL)
        return None if deletion.open_count else deletion.topic_id

    def broker_went(self, node_id: NodeId) -> None:
        for deletion in self._topics.values():
            for (holder, number), state in deletion.replicas.items():
                if holder == node_id and state is _STARTED:
                    deletion.move(holder, number, _INELIGIBLE)

    def broker_came(self, node_id: NodeId) -> dict[TopicPartition, ReplicaStop]:
        """The orders that have waited for a broker."""
        orders = {}
        for name, deletion in self._topics.items():
            for (holder, number), state in deletion.replicas.items():
                if holder == node_id and state is _INELIGIBLE:
                    deletion.move(holder, number, ReplicaState.OFFLINE)
                    deletion.move(holder, number, _STARTED)
                    orders[TopicPartition(name, number)] = _STOP
        return orders

    def finished(self, topic_name: str) -> None:
        self._topics.pop(topic_name, None)
