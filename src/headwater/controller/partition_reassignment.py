"""Moving partitions to other brokers (RA-1).

A move first adds the new replicas to the old ones; it ends when all targets are in sync, and then
the old ones go. Here moves are begun, turned and cancelled. A move whose targets are in sync from
the start is done at once: on one broker there is no other kind.
"""

from collections.abc import Sequence
from dataclasses import replace

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.controller.replica_placer import why_bad_assignment
from headwater.metadata.changes import MetadataChange, PartitionChanged
from headwater.metadata.cluster_image import NO_LEADER, ClusterImage, PartitionRegistration
from headwater.metadata.controller_result import DONE, ApiError, ControllerResult
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
    """Every partition stands for itself."""
    changes: list[MetadataChange] = []
    results = []
    for topic in request.topics:
        responses = []
        for asked in topic.partitions:
            before = _lasting(image, topic.name, asked.partition_index)
            outcome = _reassigned(
                image, before, asked, may_resize=request.allow_replication_factor_change
            )
            refusal = outcome if isinstance(outcome, ApiError) else DONE
            if isinstance(outcome, PartitionRegistration) and outcome != before:
                changes.append(PartitionChanged(topic.name, asked.partition_index, outcome))
            responses.append(
                ReassignablePartitionResponse(
                    partition_index=asked.partition_index,
                    error_code=refusal.code,
                    error_message=refusal.reason,
                )
            )
        results.append(ReassignableTopicResponse(name=topic.name, partitions=tuple(responses)))
    return ControllerResult(changes, tuple(results))


def list_reassignments(
    image: ClusterImage, request: ListPartitionReassignmentsRequest
) -> tuple[OngoingTopicReassignment, ...]:
    """The moves under way, of all partitions or of those that are asked for."""
    if request.topics is None:
        asked = {name: range(len(topic.partitions)) for name, topic in image.topics.items()}
        wanted: dict[str, Sequence[int]] = dict(sorted(asked.items()))
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
    """The partition after its move, or None while a target is not in sync yet."""
    target = _target(partition)
    if not set(target) <= set(partition.isr):
        return None
    # Where all in-sync replicas are dead nobody leads, and none of them can be told to.
    keeps_leader = partition.leader in (*target, NO_LEADER)
    return replace(
        partition,
        replicas=target,
        isr=tuple(node_id for node_id in partition.isr if node_id in target),
        leader=partition.leader if keeps_leader else target[0],
        # Also when the leader stays: a removed replica must not pass for a follower.
        leader_epoch=partition.leader_epoch + bool(partition.removing or not keeps_leader),
        partition_epoch=partition.partition_epoch + 1,
        adding=(),
        removing=(),
    )


def _lasting(image: ClusterImage, topic_name: str, number: int) -> PartitionRegistration | None:
    """The partition, unless its topic is being deleted."""
    topic = image.topics.get(topic_name)
    return None if topic is None or topic.is_deleting else image.partition(topic_name, number)


def _reassigned(
    image: ClusterImage,
    partition: PartitionRegistration | None,
    asked: ReassignablePartition,
    *,
    may_resize: bool,
) -> PartitionRegistration | ApiError:
    if partition is None:
        reason = f"there is no partition {asked.partition_index}"
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
    if asked.replicas is None:
        return _cancelled(partition)
    bad = why_bad_assignment(asked.replicas, image.brokers, len(asked.replicas))
    if bad:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, bad)
    origin = _origin(partition)
    if not may_resize and len(asked.replicas) != len(origin):
        reason = f"{len(origin)} replicas cannot become {len(asked.replicas)} in this request"
        return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    target = tuple(NodeId(node_id) for node_id in asked.replicas)
    if target == partition.replicas and not partition.adding and not partition.removing:
        return partition
    moving = _moving(partition, origin, target)
    if isinstance(moving, ApiError):
        return moving
    moved = completed(moving)
    # One change, however much is in it: the partition epoch is the version of one node.
    return moving if moved is None else replace(moved, partition_epoch=moving.partition_epoch)


def _moving(
    partition: PartitionRegistration, origin: tuple[NodeId, ...], target: tuple[NodeId, ...]
) -> PartitionRegistration | ApiError:
    removing = tuple(node_id for node_id in origin if node_id not in target)
    replicas = target + removing
    # A replica that a former target had added, and this one does not want, goes at once.
    isr = tuple(node_id for node_id in partition.isr if node_id in replicas)
    if not isr:
        reason = "none of the replicas that it would have is in sync"
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    keeps_leader = partition.leader in (*replicas, NO_LEADER)
    return replace(
        partition,
        replicas=replicas,
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
        reason = "none of the replicas that it would go back to is in sync"
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    keeps_leader = partition.leader in (*isr, NO_LEADER)
    return replace(
        partition,
        replicas=origin,
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
