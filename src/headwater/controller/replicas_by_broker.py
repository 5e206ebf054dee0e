"""Index of partitions by broker, so that a broker's failure costs what it hosts.

Note: the index may contain too many entries, never too few. Replicas are added when they are
proposed, and one that was reassigned stays until its topic is deleted; `of` filters by the image.
"""

from collections.abc import Iterable, Sequence

from headwater.common.ids import NodeId, TopicPartition
from headwater.metadata.changes import (
    MetadataChange,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from headwater.metadata.cluster_image import ClusterImage, PartitionRegistration


class ReplicasByBroker:
    """Partitions by broker, up to date with the newest proposed image."""

    def __init__(self, image: ClusterImage) -> None:
        self._by_node: dict[NodeId, dict[TopicPartition, None]] = {}
        self._counts: dict[str, int] = {}
        for topic in image.topics.values():
            self._add_all(topic.name, topic.partitions)

    def changed(self, changes: Sequence[MetadataChange]) -> None:
        """Apply changes that were proposed or observed."""
        for change in changes:
            match change:
                case TopicCreated(topic):
                    self._add_all(topic.name, topic.partitions)
                case PartitionsAdded(name, added):
                    self._add_all(name, added)
                case PartitionChanged(name, number, partition):
                    self._add(TopicPartition(name, number), partition)
                case TopicDeleted(name):
                    self._remove(name)
                case _:
                    pass

    def of(self, node_id: NodeId, image: ClusterImage) -> list[TopicPartition]:
        """Return the partitions with a replica on the broker in an image, newest or older."""
        return [
            name
            for name in self._by_node.get(node_id, ())
            if (partition := image.partition(*name)) is not None and node_id in partition.replicas
        ]

    def _add_all(self, topic: str, partitions: Iterable[PartitionRegistration]) -> None:
        first = self._counts.get(topic, 0)
        for number, partition in enumerate(partitions, first):
            self._add(TopicPartition(topic, number), partition)
            self._counts[topic] = number + 1

    def _add(self, name: TopicPartition, partition: PartitionRegistration) -> None:
        for node_id in partition.replicas:
            self._by_node.setdefault(node_id, {})[name] = None

    def _remove(self, topic: str) -> None:
        for number in range(self._counts.pop(topic, 0)):
            for held in self._by_node.values():
                held.pop(TopicPartition(topic, number), None)
