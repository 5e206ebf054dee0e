"""Decide ISR changes that leaders propose with AlterPartition (ISR-6).

Note: the order of the checks matters. A leader that is behind must learn first that it was deposed
and only then that its partition epoch is old, since it reacts differently.
"""

from collections.abc import Sequence
from dataclasses import replace

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_EPOCH, NodeId, TopicPartition
from headwater.controller.eligible_leader_replicas import with_elr
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
    """Decide each partition on its own, if the leader's broker epoch is current."""
    broker = image.registration(NodeId(request.broker_id))
    if broker is None or broker.epoch != request.broker_epoch:
        error = ErrorCode.STALE_BROKER_EPOCH
        return ControllerResult((), AlterPartitionResponse(error_code=error))
    changes: dict[TopicPartition, MetadataChange] = {}
    topics = tuple(_altered(image, broker.node_id, each, changes) for each in request.topics)
    return ControllerResult(list(changes.values()), AlterPartitionResponse(topics=topics))


def _altered(
    image: ClusterImage,
    leader_id: NodeId,
    request: TopicData,
    changes: dict[TopicPartition, MetadataChange],
) -> TopicResult:
    topic = image.topic_by_id(request.topic_id)
    results = []
    for data in request.partitions:
        if topic is None or topic.is_deleting:
            results.append(_error_result(data, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        name = TopicPartition(topic.name, data.partition_index)
        if not 0 <= name.partition < len(topic.partitions) or name in changes:
            results.append(_error_result(data, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        before = topic.partitions[name.partition]
        error = _check(image, leader_id, name, before, data)
        if error is not None:
            results.append(_error_result(data, error))
            continue
        after = _with_isr(before, data.new_isr_with_epochs)
        after = with_elr(image, topic.name, before, after)
        if after is not before:
            changes[name] = PartitionChanged(topic.name, name.partition, after)
        results.append(_result(before, after, data))
    return TopicResult(topic_id=request.topic_id, partitions=tuple(results))


def _check(
    image: ClusterImage,
    leader_id: NodeId,
    name: TopicPartition,
    partition: PartitionRegistration,
    request: PartitionData,
) -> ErrorCode | None:
    isr = [NodeId(each.broker_id) for each in request.new_isr_with_epochs]
    if (
        request.leader_epoch > partition.leader_epoch
        or request.partition_epoch > partition.partition_epoch
    ):
        # A newer controller has made changes that this one does not know.
        return ErrorCode.NOT_CONTROLLER
    if request.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if request.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(set(isr)) < len(isr) or leader_id not in isr:
        return ErrorCode.INVALID_REQUEST
    if not set(isr) <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(image, leader_id, name, each) for each in request.new_isr_with_epochs):
        return ErrorCode.INELIGIBLE_REPLICA
    return None


def _is_eligible(
    image: ClusterImage, leader_id: NodeId, name: TopicPartition, member: BrokerState
) -> bool:
    """Return whether a broker may be in the ISR under the given broker epoch."""
    node_id = NodeId(member.broker_id)
    if node_id == leader_id:
        # A leader in controlled shutdown stays if no other replica can lead.
        return True
    if eligibility(image, node_id, name) is not ReplicaEligibility.ELIGIBLE:
        return False
    return member.broker_epoch in (NO_EPOCH, image.brokers[node_id].epoch)


def _with_isr(
    partition: PartitionRegistration, members: Sequence[BrokerState]
) -> PartitionRegistration:
    """Return the partition with the new ISR; may complete a reassignment."""
    isr = tuple(NodeId(each.broker_id) for each in members)
    if isr == partition.isr:
        return partition
    after = replace(partition, isr=isr, partition_epoch=partition.partition_epoch + 1)
    if not after.adding and not after.removing:
        return after
    moved = completed(after)
    return after if moved is None else replace(moved, partition_epoch=after.partition_epoch)


def _result(
    before: PartitionRegistration, after: PartitionRegistration, request: PartitionData
) -> PartitionResult:
    if after.leader_epoch != before.leader_epoch:
        # The completed reassignment elected a leader or raised the leader epoch.
        return _error_result(request, ErrorCode.NEW_LEADER_ELECTED)
    return PartitionResult(
        partition_index=request.partition_index,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=after.isr,
        partition_epoch=after.partition_epoch,
    )


def _error_result(request: PartitionData, error: ErrorCode) -> PartitionResult:
    return PartitionResult(partition_index=request.partition_index, error_code=error)
