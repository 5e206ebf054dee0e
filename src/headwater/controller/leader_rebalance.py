"""Move leadership back to preferred replicas (auto.leader.rebalance.enable).

A restarted broker leads nothing until its partitions are moved back. The controller checks every
`leader.imbalance.check.interval.seconds` and acts for brokers where more than
`leader.imbalance.per.broker.percentage` of the partitions that prefer them have another leader.
"""

from headwater.common.ids import NodeId, TopicPartition
from headwater.controller.elect_leaders import led_by
from headwater.controller.leader_election import ReplicaEligibility, eligibility
from headwater.metadata.changes import MetadataChange, PartitionChanged
from headwater.metadata.cluster_image import ClusterImage, PartitionRegistration
from headwater.metadata.controller_result import ControllerResult


def balance_leaders(image: ClusterImage, *, percentage: int) -> ControllerResult[None]:
    """Elect preferred leaders where the imbalance exceeds `percentage`."""
    preferred: dict[NodeId, int] = {}
    imbalanced: dict[NodeId, dict[TopicPartition, PartitionRegistration]] = {}
    for topic in image.topics.values():
        if topic.is_deleting:
            continue
        for number, partition in enumerate(topic.partitions):
            node_id = partition.replicas[0]
            preferred[node_id] = preferred.get(node_id, 0) + 1
            if partition.leader != node_id:
                name = TopicPartition(topic.name, number)
                imbalanced.setdefault(node_id, {})[name] = partition
    changes: list[MetadataChange] = [
        PartitionChanged(*name, led_by(partition, node_id, partition.isr))
        for node_id, found in imbalanced.items()
        if 100 * len(found) > percentage * preferred[node_id]
        for name, partition in found.items()
        if _may_lead(image, node_id, name, partition)
    ]
    return ControllerResult(changes, None)


def _may_lead(
    image: ClusterImage, node_id: NodeId, name: TopicPartition, partition: PartitionRegistration
) -> bool:
    """Not during a reassignment, when the first replica is not final, as in Kafka 3.9."""
    is_moving = bool(partition.adding or partition.removing)
    is_sound = eligibility(image, node_id, name) is ReplicaEligibility.ELIGIBLE
    return node_id in partition.isr and is_sound and not is_moving
