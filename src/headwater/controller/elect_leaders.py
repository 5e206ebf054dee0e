"""Decide ElectLeaders requests and the automatic rebalance of leaders (PL-1).

A restarted broker leads nothing until its partitions are moved back to their preferred replicas.
With `auto.leader.rebalance.enable`, the controller checks every
`leader.imbalance.check.interval.seconds` and acts for brokers where more than
`leader.imbalance.per.broker.percentage` of the partitions that prefer them have another leader
(`balance_leaders`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from headwater.common.api_error import NO_ERROR, ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicPartition
from headwater.controller.eligible_leader_replicas import with_elr
from headwater.controller.leader_election import ReplicaEligibility, eligibility
from headwater.metadata.changes import MetadataChange, PartitionChanged
from headwater.metadata.cluster_image import NO_LEADER, ClusterImage, PartitionRegistration
from headwater.metadata.controller_result import ControllerResult
from headwater.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED: Final = 0
UNCLEAN: Final = 1

Results = tuple[ReplicaElectionResult, ...]


def elect_leaders(image: ClusterImage, request: ElectLeadersRequest) -> ControllerResult[Results]:
    """Decide each partition on its own.

    A request for all partitions gets the results of those where an election was needed, and the
    names of all topics, as in Kafka 4.1.
    """
    changes: dict[TopicPartition, MetadataChange] = {}
    results = []
    for topic, numbers in _requested(image, request):
        responses = []
        for number in numbers:
            outcome = _elected(image, topic, number, request.election_type)
            error = outcome if isinstance(outcome, ApiError) else NO_ERROR
            if isinstance(outcome, PartitionRegistration):
                before = image.topics[topic].partitions[number]
                after = with_elr(image, topic, before, outcome)
                changes[TopicPartition(topic, number)] = PartitionChanged(topic, number, after)
            if request.topic_partitions is None and error.code is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            responses.append(
                PartitionResult(
                    partition_id=number, error_code=error.code, error_message=error.reason
                )
            )
        results.append(ReplicaElectionResult(topic=topic, partition_result=tuple(responses)))
    return ControllerResult(list(changes.values()), tuple(results))


def bump_leader_epochs(image: ClusterImage, node_id: NodeId) -> ControllerResult[None]:
    """Raise the leader epochs of a standalone broker after an unclean shutdown.

    A power cut may have removed the end of its logs. Readers that were ahead notice the new epoch,
    ask where it starts, and do not take new records at old offsets for those they have read
    (EP-12).
    """
    return ControllerResult(
        [
            PartitionChanged(topic.name, number, led_by(partition, node_id, partition.isr))
            for topic in image.topics.values()
            for number, partition in enumerate(topic.partitions)
            if partition.leader == node_id
        ],
        None,
    )


def led_by(
    partition: PartitionRegistration, leader: NodeId, isr: tuple[NodeId, ...]
) -> PartitionRegistration:
    """Return the partition with another leader (or none) and a new leader epoch."""
    return replace(
        partition,
        leader=leader,
        isr=isr,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
    )


def _requested(
    image: ClusterImage, request: ElectLeadersRequest
) -> Iterator[tuple[str, Sequence[int]]]:
    if request.topic_partitions is None:
        for name in sorted(image.topics):
            if not image.topics[name].is_deleting:
                yield name, range(len(image.topics[name].partitions))
        return
    for topic in request.topic_partitions:
        yield topic.topic, topic.partitions


def _elected(
    image: ClusterImage, topic: str, number: int, election_type: int
) -> PartitionRegistration | ApiError:
    partition = image.partition(topic, number)
    if partition is None or image.topics[topic].is_deleting:
        reason = f"partition {topic}-{number} does not exist"
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
    if election_type == PREFERRED:
        return _prefer(image, TopicPartition(topic, number), partition)
    if election_type == UNCLEAN:
        return _elect_unclean(image, TopicPartition(topic, number), partition)
    return ApiError(ErrorCode.INVALID_REQUEST, f"unknown election type {election_type}")


def _prefer(
    image: ClusterImage, name: TopicPartition, partition: PartitionRegistration
) -> PartitionRegistration | ApiError:
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        return ApiError(
            ErrorCode.ELECTION_NOT_NEEDED, "the preferred replica is the leader already"
        )
    if not image.has_replica(preferred, name) or preferred not in partition.isr:
        reason = f"the preferred replica, broker {preferred}, is offline or not in the ISR"
        return ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, reason)
    return led_by(partition, preferred, partition.isr)


def _elect_unclean(
    image: ClusterImage, name: TopicPartition, partition: PartitionRegistration
) -> PartitionRegistration | ApiError:
    if partition.leader != NO_LEADER and partition.leader in image.brokers:
        return ApiError(ErrorCode.ELECTION_NOT_NEEDED, "the partition has a live leader")
    alive = [node_id for node_id in partition.replicas if image.has_replica(node_id, name)]
    if not alive:
        reason = "all replicas of the partition are offline"
        return ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, reason)
    in_sync = next((node_id for node_id in alive if node_id in partition.isr), None)
    if in_sync is not None:
        return led_by(partition, in_sync, partition.isr)
    # Records that only other replicas had are lost, so the ISR is the new leader alone.
    return led_by(partition, alive[0], (alive[0],))


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
