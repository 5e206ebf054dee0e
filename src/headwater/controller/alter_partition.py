"""In-sync replicas, as leaders ask for them: AlterPartition (ISR-6).

What a reader would get wrong: the order of the checks is part of the answer. A leader that is
behind must hear first that it leads no more, and only then that its version is old, since it does
different things then.
"""

from collections.abc import Sequence
from dataclasses import replace

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_EPOCH, NodeId, TopicPartition
from headwater.controller.leader_election import ReplicaEligibility, eligibility
from headwater.controller.partition_reassignment import completed
from headwater.metadata.changes import MetadataChange, PartitionChanged
from headwater.metadata.cluster_image import ClusterImage, PartitionRegistration
from headwater.metadata.controller_result import ControllerResult
from headwater.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionResult,
    TopicData,
    TopicResult,
)


def alter_partition(
    image: ClusterImage, request: AlterPartitionRequest
) -> ControllerResult[AlterPartitionResponse]:
    """Every partition stands for itself, if the leader's registration is the present one."""
    broker = image.brokers.get(NodeId(request.broker_id))
    if broker is None or broker.epoch != request.broker_epoch:
        error = ErrorCode.STALE_BROKER_EPOCH
        return ControllerResult((), AlterPartitionResponse(error_code=error))
    changes: dict[TopicPartition, MetadataChange] = {}
    topics = tuple(_altered(image, broker.node_id, each, changes) for each in request.topics)
    return ControllerResult(list(changes.values()), AlterPartitionResponse(topics=topics))


def _altered(
    image: ClusterImage,
    asker: NodeId,
    asked: TopicData,
    changes: dict[TopicPartition, MetadataChange],
) -> TopicResult:
    topic = image.topic_by_id(asked.topic_id)
    results = []
    for data in asked.partitions:
        if topic is None or topic.is_deleting:
            results.append(_refused(data, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        name = TopicPartition(topic.name, data.partition_index)
        if not 0 <= name.partition < len(topic.partitions) or name in changes:
            results.append(_refused(data, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        before = topic.partitions[name.partition]
        error = _why_not(image, asker, name, before, data)
        if error is not None:
            results.append(_refused(data, error))
            continue
        after = _with_isr(before, data.new_isr_with_epochs)
        if after is not before:
            changes[name] = PartitionChanged(topic.name, name.partition, after)
        results.append(_granted(before, after, data))
    return TopicResult(topic_id=asked.topic_id, partitions=tuple(results))


def _why_not(
    image: ClusterImage,
    asker: NodeId,
    name: TopicPartition,
    partition: PartitionRegistration,
    asked: PartitionData,
) -> ErrorCode | None:
    isr = [NodeId(each.broker_id) for each in asked.new_isr_with_epochs]
    if (
        asked.leader_epoch > partition.leader_epoch
        or asked.partition_epoch > partition.partition_epoch
    ):
        # Another controller has decided more than this one knows.
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if asker != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(set(isr)) < len(isr) or asker not in isr:
        return ErrorCode.INVALID_REQUEST
    if not set(isr) <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(image, asker, name, each) for each in asked.new_isr_with_epochs):
        return ErrorCode.INELIGIBLE_REPLICA
    return None


def _is_eligible(
    image: ClusterImage, asker: NodeId, name: TopicPartition, member: BrokerState
) -> bool:
    """Whether a broker can be counted on, under the registration that the leader means."""
    node_id = NodeId(member.broker_id)
    if node_id == asker:
        # A leader that is about to stop stays where nobody else can lead.
        return True
    if eligibility(image, node_id, name) is not ReplicaEligibility.SOUND:
        return False
    return member.broker_epoch in (NO_EPOCH, image.brokers[node_id].epoch)


def _with_isr(
    partition: PartitionRegistration, members: Sequence[BrokerState]
) -> PartitionRegistration:
    """The partition with other in-sync replicas; a move that waited for them is done with it."""
    isr = tuple(NodeId(each.broker_id) for each in members)
    if isr == partition.isr:
        return partition
    after = replace(partition, isr=isr, partition_epoch=partition.partition_epoch + 1)
    if not after.adding and not after.removing:
        return after
    moved = completed(after)
    return after if moved is None else replace(moved, partition_epoch=after.partition_epoch)


def _granted(
    before: PartitionRegistration, after: PartitionRegistration, asked: PartitionData
) -> PartitionResult:
    if after.leader_epoch != before.leader_epoch:
        # The move that this has ended made it another's, or a new term of the same leader.
        return _refused(asked, ErrorCode.NEW_LEADER_ELECTED)
    return PartitionResult(
        partition_index=asked.partition_index,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=after.isr,
        partition_epoch=after.partition_epoch,
    )


def _refused(asked: PartitionData, error: ErrorCode) -> PartitionResult:
    return PartitionResult(partition_index=asked.partition_index, error_code=error)
