"""Report the log directory of each replica (Kafka: AssignmentsManager).

With one log directory the controller knows. With several, a broker chooses one for a new replica
and reports it (KIP-858). When a directory fails, the controller elects other leaders for its
replicas only.

Pure: `next_request` returns what is to be sent, one request at a time.
"""

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId
from headwater.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

REQUEST_MAX: Final = 2_250
"""Replicas in one request, as in Kafka."""

_FIRST_BACKOFF_MS: Final = 100
_LONGEST_BACKOFF_MS: Final = 10_000
# The replica was deleted or moved away meanwhile; metadata about that is on its way.
_OBSOLETE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)

_Replica = tuple[TopicId, int]


class AssignmentsManager:
    """Assignments that the controller has not confirmed."""

    def __init__(self, node_id: NodeId) -> None:
        self._node_id = node_id
        self._waiting: dict[_Replica, TopicId] = {}
        self._in_flight: dict[_Replica, TopicId] = {}
        self._failures = 0
        self._due_ms = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    def assign(self, topic_id: TopicId, partition: int, directory_id: TopicId) -> None:
        """Report a replica; a later directory of the same replica replaces this one."""
        self._waiting[topic_id, partition] = directory_id

    def next_request(self, now_ms: int, broker_epoch: int) -> AssignReplicasToDirsRequest | None:
        """Return the request that is due; None while another one is in flight."""
        if self._in_flight or not self._waiting or now_ms < self._due_ms:
            return None
        for replica in list(self._waiting)[:REQUEST_MAX]:
            self._in_flight[replica] = self._waiting.pop(replica)
        return _request(self._node_id, broker_epoch, self._in_flight)

    def handle_response(self, response: AssignReplicasToDirsResponse | None, now_ms: int) -> None:
        """Apply a response; None if the request failed or timed out."""
        sent, self._in_flight = self._in_flight, {}
        if response is None or response.error_code:
            self._repeat(sent, now_ms)
            return
        answers = {
            (topic.topic_id, each.partition_index): each.error_code
            for directory in response.directories
            for topic in directory.topics
            for each in topic.partitions
        }
        refused = {
            replica: directory_id
            for replica, directory_id in sent.items()
            if (code := answers.get(replica, ErrorCode.UNKNOWN_SERVER_ERROR))
            and code not in _OBSOLETE
        }
        if refused:
            self._repeat(refused, now_ms)
        else:
            self._failures = 0
            self._due_ms = now_ms

    def _repeat(self, replicas: dict[_Replica, TopicId], now_ms: int) -> None:
        # A newer assignment of the same replica wins.
        self._waiting = {**replicas, **self._waiting}
        delay_ms = min(_FIRST_BACKOFF_MS << min(self._failures, 16), _LONGEST_BACKOFF_MS)
        self._failures += 1
        self._due_ms = now_ms + delay_ms


def _request(
    node_id: NodeId, broker_epoch: int, replicas: dict[_Replica, TopicId]
) -> AssignReplicasToDirsRequest:
    by_directory: dict[TopicId, dict[TopicId, list[int]]] = {}
    for (topic_id, partition), directory_id in replicas.items():
        by_directory.setdefault(directory_id, {}).setdefault(topic_id, []).append(partition)
    return AssignReplicasToDirsRequest(
        broker_id=node_id,
        broker_epoch=broker_epoch,
        directories=tuple(
            DirectoryData(
                id=directory_id,
                topics=tuple(
                    TopicData(
                        topic_id=topic_id,
                        partitions=tuple(PartitionData(partition_index=each) for each in numbers),
                    )
                    for topic_id, numbers in topics.items()
                ),
            )
            for directory_id, topics in by_directory.items()
        ),
    )
