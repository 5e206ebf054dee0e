"""Who leads and who is in sync, once it is known which brokers can be counted on (PL-2, ISR-7).

One rule serves all occasions: a broker came, went, came again unseen, is about to stop, lost a log
directory, or a new controller looks at everything. It makes of a partition what it should be now,
so to ask twice changes nothing.

What a reader would get wrong: to be up is not enough. A broker that has come again may have lost
what it had acknowledged, because acknowledged records are in page caches. So it counts as returned
until a controller has admitted its registration, and by then it is in sync nowhere, save where
nobody else was: the last in-sync replicas stay, dead or alive, and one that returns leads again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import IntEnum

from headwater.common.ids import NodeId, TopicPartition
from headwater.controller.partition_reassignment import completed
from headwater.metadata.changes import BrokerAdmitted, MetadataChange, PartitionChanged
from headwater.metadata.cluster_image import NO_LEADER, ClusterImage, PartitionRegistration
from headwater.metadata.controller_result import ControllerResult

MayBeUnclean = Callable[[str], bool]
"""Whether a topic takes a leader that was not in sync over none at all."""


class ReplicaEligibility(IntEnum):
    """How far a replica can be counted on; more is better."""

    DEAD = 0
    RETURNED = 1
    STOPPING = 2
    SOUND = 3


def elect_and_shrink(
    image: ClusterImage,
    names: Iterable[TopicPartition],
    *,
    may_be_unclean: MayBeUnclean,
    admit: Sequence[NodeId] = (),
) -> ControllerResult[None]:
    """Set the partitions right that are not, and admit brokers all of whose partitions are named.

    Brokers are admitted with what follows from it or not at all: otherwise a controller that dies
    in between would leave its successor with a returned broker that looks sound.
    """
    changes: list[MetadataChange] = []
    for name in names:
        topic = image.topics.get(name.topic)
        if topic is None or topic.is_deleting or name.partition >= len(topic.partitions):
            continue
        before = topic.partitions[name.partition]
        after = elected_and_shrunk(image, name, before, may_be_unclean)
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
) -> PartitionRegistration:
    """The partition as it should be; the same object where it is so."""
    moved = completed(partition) if partition.adding or partition.removing else None
    if moved is not None:
        after = _settled(image, name, moved, may_be_unclean)
        # One change, however much is in it.
        return replace(after, partition_epoch=partition.partition_epoch + 1)
    return _settled(image, name, partition, may_be_unclean)


def _settled(
    image: ClusterImage,
    name: TopicPartition,
    partition: PartitionRegistration,
    may_be_unclean: MayBeUnclean,
) -> PartitionRegistration:
    eligibilities = {each: eligibility(image, each, name) for each in partition.replicas}
    isr = _in_sync(partition, eligibilities)
    if isr:
        return _led_by_one_of(partition, isr, eligibilities)
    alive = [each for each in partition.replicas if eligibilities[each] > ReplicaEligibility.DEAD]
    if alive and may_be_unclean(name.topic):
        # Whatever only the others had is lost, so they are no longer in sync with anything.
        leader = max(alive, key=lambda each: eligibilities[each])
        return _changed(partition, leader, (leader,), is_new_term=True)
    return _changed(partition, NO_LEADER, partition.isr, is_new_term=partition.leader != NO_LEADER)


def eligibility(image: ClusterImage, node_id: NodeId, name: TopicPartition) -> ReplicaEligibility:
    broker = image.brokers.get(node_id)
    if broker is None or name in broker.offline_replicas:
        return ReplicaEligibility.DEAD
    if image.admitted_epochs.get(node_id) != broker.epoch:
        return ReplicaEligibility.RETURNED
    return ReplicaEligibility.STOPPING if broker.is_stopping else ReplicaEligibility.SOUND


def _in_sync(
    partition: PartitionRegistration, eligibilities: dict[NodeId, ReplicaEligibility]
) -> tuple[NodeId, ...]:
    """The best of those that were in sync; nobody, where all of them are dead."""
    best = max((eligibilities[each] for each in partition.isr), default=ReplicaEligibility.DEAD)
    if best is ReplicaEligibility.DEAD:
        return ()
    found = tuple([each for each in partition.isr if eligibilities[each] is best])
    if best is not ReplicaEligibility.RETURNED:
        return found
    # Each may have lost something else, so only one of them can be the measure.
    return (_first(partition, found),)


def _led_by_one_of(
    partition: PartitionRegistration,
    isr: tuple[NodeId, ...],
    eligibilities: dict[NodeId, ReplicaEligibility],
) -> PartitionRegistration:
    leader = _first(partition, isr)
    # A leader that has lost its memory leads under a new epoch, so that readers notice (EP-12).
    is_new_term = leader != partition.leader or eligibilities[leader] is ReplicaEligibility.RETURNED
    return _changed(partition, leader, isr, is_new_term=is_new_term)


def _first(partition: PartitionRegistration, candidates: Sequence[NodeId]) -> NodeId:
    """The present leader, or else the first in the order of replicas."""
    if partition.leader in candidates:
        return partition.leader
    return next(each for each in partition.replicas if each in candidates)


def _changed(
    partition: PartitionRegistration, leader: NodeId, isr: tuple[NodeId, ...], *, is_new_term: bool
) -> PartitionRegistration:
    if not is_new_term and isr == partition.isr:
        return partition
    return replace(
        partition,
        leader=leader,
        isr=isr,
        leader_epoch=partition.leader_epoch + is_new_term,
        partition_epoch=partition.partition_epoch + 1,
    )
