"""A broker asks to be relieved before it stops (CS-1).

The controller first notes that the broker is about to stop, and then `partition_change_builder`
does the rest, as for any broker that can no longer be counted on. What remains are partitions that
nobody else can lead; the broker asks again for those, a few times, and then stops all the same.
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
    """Why the request is not for the broker that is registered now, or None."""
    broker = image.brokers.get(NodeId(request.broker_id))
    if broker is None:
        return ControlledShutdownResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
    # Versions before 2 did not tell the epoch.
    if request.broker_epoch not in (-1, broker.epoch):
        return ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    return None


def remaining(
    image: ClusterImage, node_id: NodeId, held: list[TopicPartition]
) -> ControlledShutdownResponse:
    """What the broker still leads, though others hold it too."""
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
    """Replicas that need not follow any more: if they went on, they would become in sync again."""
    return {
        name: ReplicaStop(partition.leader_epoch, is_deleted=False)
        for name in held
        if (partition := image.partition(*name)) is not None and partition.leader != node_id
    }
