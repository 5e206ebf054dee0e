"""Track topic deletions: a topic is removed when all its replicas are deleted.

The image says which topics are being deleted; the progress of each replica is only in memory. A new
controller starts again, which costs one more StopReplica per replica. A replica whose broker is
down or whose disk failed waits until the broker registers again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.controller.replica_state_machine import REPLICA_TRANSITIONS, ReplicaState
from headwater.metadata.changes import TopicDeleted
from headwater.metadata.cluster_image import ClusterImage, TopicImage
from headwater.metadata.control_requests import EPOCH_DURING_DELETE, ReplicaStop
from headwater.metadata.controller_result import ControllerResult

_STARTED = ReplicaState.DELETION_STARTED
_SUCCESSFUL = ReplicaState.DELETION_SUCCESSFUL
_INELIGIBLE = ReplicaState.DELETION_INELIGIBLE

Stops = dict[NodeId, dict[TopicPartition, ReplicaStop]]
_STOP = ReplicaStop(EPOCH_DURING_DELETE, is_deleted=True)


def finish_deletion(
    image: ClusterImage, topic_name: str, topic_id: TopicId
) -> ControllerResult[None]:
    """Remove the topic unless that has happened already."""
    topic = image.topics.get(topic_name)
    if topic is None or topic.topic_id != topic_id:
        return ControllerResult((), None)
    return ControllerResult([TopicDeleted(topic_name)], None)


@dataclass(slots=True)
class _Deletion:
    topic_id: TopicId
    replicas: dict[tuple[NodeId, int], ReplicaState] = field(default_factory=dict)
    # Replicas that are left, so that the last response needs no search.
    open_count: int = 0

    def move(self, node_id: NodeId, number: int, state: ReplicaState) -> None:
        before = self.replicas[node_id, number]
        assert state in REPLICA_TRANSITIONS[before], (
            f"invalid replica state transition: {before.name} to {state.name}"
        )
        self.replicas[node_id, number] = state
        self.open_count -= state is _SUCCESSFUL


class TopicDeletions:
    """Progress of each topic deletion."""

    def __init__(self) -> None:
        self._topics: dict[str, _Deletion] = {}

    def __len__(self) -> int:
        return len(self._topics)

    def begin(self, topic: TopicImage, live_brokers: Iterable[NodeId]) -> Stops:
        """Start to delete a topic; return the StopReplica entries for live brokers."""
        deletion = self._topics[topic.name] = _Deletion(topic.topic_id)
        for number, partition in enumerate(topic.partitions):
            for node_id in partition.replicas:
                deletion.replicas[node_id, number] = ReplicaState.OFFLINE
                deletion.open_count += 1
        stops: Stops = {}
        alive = dict.fromkeys(live_brokers)
        for node_id, number in deletion.replicas:
            if node_id in alive:
                deletion.move(node_id, number, _STARTED)
                stops.setdefault(node_id, {})[TopicPartition(topic.name, number)] = _STOP
            else:
                deletion.move(node_id, number, _INELIGIBLE)
        return stops

    def on_response(
        self, node_id: NodeId, name: TopicPartition, error: ErrorCode
    ) -> TopicId | None:
        """Handle a StopReplica response; return the topic id after the last replica."""
        deletion = self._topics.get(name.topic)
        if deletion is None or deletion.replicas.get((node_id, name.partition)) is not _STARTED:
            # The response is not for a deletion, or for one that was sent twice.
            return None
        deletion.move(node_id, name.partition, _INELIGIBLE if error else _SUCCESSFUL)
        return None if deletion.open_count else deletion.topic_id

    def on_broker_offline(self, node_id: NodeId) -> None:
        for deletion in self._topics.values():
            for (holder, number), state in deletion.replicas.items():
                if holder == node_id and state is _STARTED:
                    deletion.move(holder, number, _INELIGIBLE)

    def on_broker_online(self, node_id: NodeId) -> dict[TopicPartition, ReplicaStop]:
        """Return the StopReplica entries that waited for this broker."""
        stops = {}
        for name, deletion in self._topics.items():
            for (holder, number), state in deletion.replicas.items():
                if holder == node_id and state is _INELIGIBLE:
                    deletion.move(holder, number, ReplicaState.OFFLINE)
                    deletion.move(holder, number, _STARTED)
                    stops[TopicPartition(name, number)] = _STOP
        return stops

    def finished(self, topic_name: str) -> None:
        self._topics.pop(topic_name, None)
