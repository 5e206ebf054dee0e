"""Decide controlled shutdown: move leaders off a broker that is stopping (CS-1).

The controller marks the broker as stopping, then `leader_election` elects other leaders as for any
broker that goes offline. What remains are partitions that no other replica can lead; the broker
retries for these a few times and then stops anyway.
"""

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicPartition
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.control_requests import ReplicaStop
from headwater.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


def check_shutdown(
    image: ClusterImage, request: ControlledShutdownRequest
) -> ControlledShutdownResponse | None:
    """Return an error response if the request does not match the current registration."""
    broker = image.brokers.get(NodeId(request.broker_id))
    if broker is None:
        return ControlledShutdownResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
    # Versions before 2 have no broker epoch.
    if request.broker_epoch not in (-1, broker.epoch):
        return ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    return None


def remaining(
    image: ClusterImage, node_id: NodeId, held: list[TopicPartition]
) -> ControlledShutdownResponse:
    """Return the partitions with other replicas that the broker still leads."""
    left = [
        RemainingPartition(topic_name=name.topic, partition_index=name.partition)
        for name in held
        if (partition := image.partition(*name)) is not None
        and partition.leader == node_id
        and len(partition.replicas) > 1
        and not image.topics[name.topic].is_deleting
    ]
    return ControlledShutdownResponse(remaining_partitions=tuple(left))


def followed(
    image: ClusterImage, node_id: NodeId, held: list[TopicPartition]
) -> dict[TopicPartition, ReplicaStop]:
    """Return the broker's replicas to stop; if they fetched on, they would rejoin."""
    return {
        name: ReplicaStop(partition.leader_epoch, is_deleted=False)
        for name in held
        if (partition := image.partition(*name)) is not None and partition.leader != node_id
    }
