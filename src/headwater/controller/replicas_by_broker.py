"""Which partitions a broker holds, so that its death costs what it held and not what exists.

What a reader would get wrong: this may name too many. Replicas are noted as soon as they are
proposed, and one that has moved away stays noted until its topic goes; `of` passes over those that
an image does not have. It never names too few, on which all that happens at a broker's coming and
going relies.
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
    """Partitions by broker, kept beside the newest image that was proposed."""

    def __init__(self, image: ClusterImage) -> None:
        self._by_node: dict[NodeId, dict[TopicPartition, None]] = {}
        self._counts: dict[str, int] = {}
        for topic in image.topics.values():
            self._note_all(topic.name, topic.partitions)

    def changed(self, changes: Sequence[MetadataChange]) -> None:
        """Something was proposed, or has happened."""
        for change in changes:
            match change:
                case TopicCreated(topic):
                    self._note_all(topic.name, topic.partitions)
                case PartitionsAdded(name, added):
                    self._note_all(name, added)
                case PartitionChanged(name, number, partition):
                    self._note(TopicPartition(name, number), partition)
                case TopicDeleted(name):
                    self._forget(name)
                case _:
                    pass

    def of(self, node_id: NodeId, image: ClusterImage) -> list[TopicPartition]:
        """What a broker holds, in an image that is the newest or older."""
        return [
            name
            for name in self._by_node.get(node_id, ())
            if (partition := image.partition(*name)) is not None and node_id in partition.replicas
        ]

    def _note_all(self, topic: str, partitions: Iterable[PartitionRegistration]) -> None:
        first = self._counts.get(topic, 0)
        for number, partition in enumerate(partitions, first):
            self._note(TopicPartition(topic, number), partition)
            self._counts[topic] = number + 1

    def _note(self, name: TopicPartition, partition: PartitionRegistration) -> None:
        for node_id in partition.replicas:
            self._by_node.setdefault(node_id, {})[name] = None

    def _forget(self, topic: str) -> None:
        for number in range(self._counts.pop(topic, 0)):
            for held in self._by_node.values():
                held.pop(TopicPartition(topic, number), None)
