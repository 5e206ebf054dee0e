"""Start, change and cancel partition reassignments (RA-1).

A reassignment first adds the new replicas. When all of them are in the ISR, it removes the old
ones. If they are in the ISR from the start, it completes at once; on a standalone broker this is
the only case.
"""

from collections.abc import Sequence
from dataclasses import replace

from headwater.common.api_error import NO_ERROR, ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.controller.eligible_leader_replicas import with_elr
from headwater.controller.replica_placer import assignment_error
from headwater.metadata.changes import MetadataChange, PartitionChanged
from headwater.metadata.cluster_image import NO_LEADER, ClusterImage, PartitionRegistration
from headwater.metadata.controller_result import ControllerResult
from headwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from headwater.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def alter_reassignments(
    image: ClusterImage, request: AlterPartitionReassignmentsRequest
) -> ControllerResult[tuple[ReassignableTopicResponse, ...]]:
    """Decide each partition on its own."""
    changes: list[MetadataChange] = []
    results = []
    for topic in request.topics:
        responses = []
        for requested in topic.partitions:
            before = _existing(image, topic.name, requested.partition_index)
            outcome = _reassigned(
                image, before, requested, may_resize=request.allow_replication_factor_change
            )
            refusal = outcome if isinstance(outcome, ApiError) else NO_ERROR
            if isinstance(outcome, PartitionRegistration) and outcome != before:
                assert before is not None
                outcome = with_elr(image, topic.name, before, outcome)
                changes.append(PartitionChanged(topic.name, requested.partition_index, outcome))
            responses.append(
                ReassignablePartitionResponse(
                    partition_index=requested.partition_index,
                    error_code=refusal.code,
                    error_message=refusal.reason,
                )
            )
        results.append(ReassignableTopicResponse(name=topic.name, partitions=tuple(responses)))
    return ControllerResult(changes, tuple(results))


def list_reassignments(
    image: ClusterImage, request: ListPartitionReassignmentsRequest
) -> tuple[OngoingTopicReassignment, ...]:
    """Return ongoing reassignments, of all partitions or of those requested."""
    if request.topics is None:
        requested = {name: range(len(topic.partitions)) for name, topic in image.topics.items()}
        wanted: dict[str, Sequence[int]] = dict(sorted(requested.items()))
    else:
        wanted = {topic.name: topic.partition_indexes for topic in request.topics}
    moving = {
        name: [
            OngoingPartitionReassignment(
                partition_index=number,
                replicas=partition.replicas,
                adding_replicas=partition.adding,
                removing_replicas=partition.removing,
            )
            for number in numbers
            if (partition := image.partition(name, number)) is not None
            and (partition.adding or partition.removing)
        ]
        for name, numbers in wanted.items()
    }
    return tuple(
        OngoingTopicReassignment(name=name, partitions=tuple(partitions))
        for name, partitions in moving.items()
        if partitions
    )


def completed(partition: PartitionRegistration) -> PartitionRegistration | None:
    """Return the partition after its reassignment; None while the ISR lacks a target."""
    target = _target(partition)
    if not set(target) <= set(partition.isr):
        return None
    # If all ISR members are dead there is no leader, and none can be elected.
    keeps_leader = partition.leader in (*target, NO_LEADER)
    return replace(
        partition,
        replicas=target,
        directories=partition.directories_of(target),
        isr=tuple(node_id for node_id in partition.isr if node_id in target),
        leader=partition.leader if keeps_leader else target[0],
        # Also if the leader stays: a removed replica must not continue as a follower.
        leader_epoch=partition.leader_epoch + bool(partition.removing or not keeps_leader),
        partition_epoch=partition.partition_epoch + 1,
        adding=(),
        removing=(),
    )


def _existing(image: ClusterImage, topic_name: str, number: int) -> PartitionRegistration | None:
    """Return the partition unless its topic is being deleted."""
    topic = image.topics.get(topic_name)
    return None if topic is None or topic.is_deleting else image.partition(topic_name, number)


def _reassigned(
    image: ClusterImage,
    partition: PartitionRegistration | None,
    requested: ReassignablePartition,
    *,
    may_resize: bool,
) -> PartitionRegistration | ApiError:
    if partition is None:
        reason = f"partition {requested.partition_index} does not exist"
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
    if requested.replicas is None:
        return _cancelled(partition)
    bad = assignment_error(requested.replicas, image.brokers, len(requested.replicas))
    if bad:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, bad)
    origin = _origin(partition)
    if not may_resize and len(requested.replicas) != len(origin):
        reason = (
            f"the request may not change the replication factor from {len(origin)} "
            f"to {len(requested.replicas)}"
        )
        return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    target = tuple(NodeId(node_id) for node_id in requested.replicas)
    if target == partition.replicas and not partition.adding and not partition.removing:
        return partition
    moving = _moving(partition, origin, target)
    if isinstance(moving, ApiError):
        return moving
    moved = completed(moving)
    # One write, one increment of the partition epoch, which is the version of its znode.
    return moving if moved is None else replace(moved, partition_epoch=moving.partition_epoch)


def _moving(
    partition: PartitionRegistration, origin: tuple[NodeId, ...], target: tuple[NodeId, ...]
) -> PartitionRegistration | ApiError:
    removing = tuple(node_id for node_id in origin if node_id not in target)
    replicas = target + removing
    # A replica that an earlier target added, and this one does not, is removed at once.
    isr = tuple(node_id for node_id in partition.isr if node_id in replicas)
    if not isr:
        reason = "no replica of the new assignment is in the ISR"
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    keeps_leader = partition.leader in (*replicas, NO_LEADER)
    return replace(
        partition,
        replicas=replicas,
        directories=partition.directories_of(replicas),
        isr=isr,
        leader=partition.leader if keeps_leader else isr[0],
        leader_epoch=partition.leader_epoch + (not keeps_leader),
        partition_epoch=partition.partition_epoch + 1,
        adding=tuple(node_id for node_id in target if node_id not in origin),
        removing=removing,
    )


def _cancelled(partition: PartitionRegistration) -> PartitionRegistration | ApiError:
    if not partition.adding and not partition.removing:
        return ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    origin = _origin(partition)
    isr = tuple(node_id for node_id in partition.isr if node_id in origin)
    if not isr:
        reason = "no replica of the original assignment is in the ISR"
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    keeps_leader = partition.leader in (*isr, NO_LEADER)
    return replace(
        partition,
        replicas=origin,
        directories=partition.directories_of(origin),
        isr=isr,
        leader=partition.leader if keeps_leader else isr[0],
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
        adding=(),
        removing=(),
    )


def _origin(partition: PartitionRegistration) -> tuple[NodeId, ...]:
    return tuple(node_id for node_id in partition.replicas if node_id not in partition.adding)


def _target(partition: PartitionRegistration) -> tuple[NodeId, ...]:
    return tuple(node_id for node_id in partition.replicas if node_id not in partition.removing)
