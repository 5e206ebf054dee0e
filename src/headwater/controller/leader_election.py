"""Elect leaders and shrink ISRs when live brokers change (PL-2, ISR-7).

One rule serves all occasions: a broker registers, dies, restarts unnoticed, starts a controlled
shutdown or loses a log directory, or a new controller checks all partitions. Idempotent.

Note: a broker that re-registers after an unclean shutdown may have lost acknowledged records that
were only in its page cache. It counts as returned until a controller has admitted its registration,
and by then it has been removed from every ISR in which other members are left. The last ISR members
stay, dead or alive, and one of them that returns leads again. With eligible leader replicas they
leave, too, and an ELR member leads (`eligible_leader_replicas`).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from enum import IntEnum

from headwater.common.ids import NodeId, TopicPartition
from headwater.controller.eligible_leader_replicas import is_elr_enabled, with_elr
from headwater.controller.partition_reassignment import completed
from headwater.metadata.changes import BrokerAdmitted, MetadataChange, PartitionChanged
from headwater.metadata.cluster_image import NO_LEADER, ClusterImage, PartitionRegistration
from headwater.metadata.controller_result import ControllerResult

MayBeUnclean = Callable[[str], bool]
"""Whether a topic allows unclean leader election."""


class ReplicaEligibility(IntEnum):
    """How well a replica qualifies for leader and ISR; higher is better."""

    DEAD = 0
    RETURNED = 1
    STOPPING = 2
    ELIGIBLE = 3


def elect_and_shrink(
    image: ClusterImage,
    names: Iterable[TopicPartition],
    *,
    may_be_unclean: MayBeUnclean,
    admit: Sequence[NodeId] = (),
    unclean: Collection[NodeId] = (),
) -> ControllerResult[None]:
    """Elect leaders and shrink ISRs for these partitions, and admit brokers.

    `unclean` are brokers that restarted without proof of a clean shutdown.

    All partitions of an admitted broker must be named. Brokers are admitted in the same write as
    the changes that follow from it: otherwise a controller that dies in between would leave its
    successor a returned broker that looks sound.
    """
    changes: list[MetadataChange] = []
    for name in names:
        topic = image.topics.get(name.topic)
        if topic is None or topic.is_deleting or name.partition >= len(topic.partitions):
            continue
        before = topic.partitions[name.partition]
        after = elected_and_shrunk(image, name, before, may_be_unclean, unclean)
        if after is not before:
            changes.append(PartitionChanged(name.topic, name.partition, after))
    for node_id in admit:
        broker = image.brokers.get(node_id)
        if broker is not None and image.admitted_epochs.get(node_id) != broker.epoch:
            changes.append(BrokerAdmitted(node_id, broker.epoch))
    return ControllerResult(changes, None)


def elected_and_shrunk(
    image: ClusterImage,
    name: TopicPartition,
    partition: PartitionRegistration,
    may_be_unclean: MayBeUnclean,
    unclean: Collection[NodeId] = (),
) -> PartitionRegistration:
    """Return the partition after election and shrink; the same object if unchanged."""
    moved = completed(partition) if partition.adding or partition.removing else None
    if moved is not None:
        after = _elected(image, name, moved, may_be_unclean, unclean)
        # One write, one increment of the partition epoch.
        after = replace(after, partition_epoch=partition.partition_epoch + 1)
    else:
        after = _elected(image, name, partition, may_be_unclean, unclean)
    return with_elr(image, name.topic, partition, after, unclean)


def _elected(
    image: ClusterImage,
    name: TopicPartition,
    partition: PartitionRegistration,
    may_be_unclean: MayBeUnclean,
    unclean: Collection[NodeId],
) -> PartitionRegistration:
    eligibilities = {each: eligibility(image, each, name) for each in partition.replicas}
    isr = _in_sync(partition, eligibilities)
    if isr:
        return _led_by_one_of(partition, isr, eligibilities)
    has_elr = is_elr_enabled(image)
    if has_elr:
        leader = _elr_leader(image, name, partition, eligibilities, unclean)
        if leader is not None:
            return _changed(partition, leader, (leader,), is_new_epoch=True)
    alive = [each for each in partition.replicas if eligibilities[each] > ReplicaEligibility.DEAD]
    if alive and may_be_unclean(name.topic):
        # An unclean leader: records that only other replicas had are lost, so the ISR is the
        # leader.
        leader = max(alive, key=lambda each: eligibilities[each])
        return _changed(partition, leader, (leader,), is_new_epoch=True)
    isr = () if has_elr else partition.isr
    return _changed(partition, NO_LEADER, isr, is_new_epoch=partition.leader != NO_LEADER)


def _elr_leader(
    image: ClusterImage,
    name: TopicPartition,
    partition: PartitionRegistration,
    eligibilities: dict[NodeId, ReplicaEligibility],
    unclean: Collection[NodeId],
) -> NodeId | None:
    """Return the best ELR member of a partition whose ISR members are all dead.

    If no ELR member exists, dead or alive, the last leader has as much as any replica.
    """
    empty = with_elr(image, name.topic, partition, replace(partition, isr=()), unclean)
    candidates = [
        each
        for each in empty.elr or empty.last_known_elr
        if eligibilities.get(each, ReplicaEligibility.DEAD) > ReplicaEligibility.DEAD
    ]
    return max(candidates, key=lambda each: eligibilities[each], default=None)


def eligibility(image: ClusterImage, node_id: NodeId, name: TopicPartition) -> ReplicaEligibility:
    broker = image.brokers.get(node_id)
    if broker is None or not image.has_replica(node_id, name):
        return ReplicaEligibility.DEAD
    if image.admitted_epochs.get(node_id) != broker.epoch:
        return ReplicaEligibility.RETURNED
    return ReplicaEligibility.STOPPING if broker.is_stopping else ReplicaEligibility.ELIGIBLE


def _in_sync(
    partition: PartitionRegistration, eligibilities: dict[NodeId, ReplicaEligibility]
) -> tuple[NodeId, ...]:
    """Return the best-qualified ISR members; empty if all are dead."""
    best = max((eligibilities[each] for each in partition.isr), default=ReplicaEligibility.DEAD)
    if best is ReplicaEligibility.DEAD:
        return ()
    found = tuple([each for each in partition.isr if eligibilities[each] is best])
    if best is not ReplicaEligibility.RETURNED:
        return found
    # Each may have lost other records, so only one of them stays in the ISR.
    return (_first(partition, found),)


def _led_by_one_of(
    partition: PartitionRegistration,
    isr: tuple[NodeId, ...],
    eligibilities: dict[NodeId, ReplicaEligibility],
) -> PartitionRegistration:
    leader = _first(partition, isr)
    # A returned leader gets a new leader epoch, so that readers detect lost records (EP-12).
    is_new_epoch = (
        leader != partition.leader or eligibilities[leader] is ReplicaEligibility.RETURNED
    )
    return _changed(partition, leader, isr, is_new_epoch=is_new_epoch)


def _first(partition: PartitionRegistration, candidates: Sequence[NodeId]) -> NodeId:
    """Return the current leader if it is a candidate, else the first replica that is."""
    if partition.leader in candidates:
        return partition.leader
    return next(each for each in partition.replicas if each in candidates)


def _changed(
    partition: PartitionRegistration, leader: NodeId, isr: tuple[NodeId, ...], *, is_new_epoch: bool
) -> PartitionRegistration:
    if not is_new_epoch and isr == partition.isr:
        return partition
    return replace(
        partition,
        leader=leader,
        isr=isr,
        leader_epoch=partition.leader_epoch + is_new_epoch,
        partition_epoch=partition.partition_epoch + 1,
    )
