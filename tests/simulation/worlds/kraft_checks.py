"""Invariants of a simulated KRaft cluster: of the metadata log, and of all that follow it.

Every replica applies the same changes at the same offset, and each committed image keeps the rules
of ISRs, leaders and epochs. `cluster_checks` has what holds for the partitions' logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.controller.eligible_leader_replicas import is_elr_enabled, min_isr_of
from headwater.metadata.changes import BrokerRegistered, MetadataChange, PartitionChanged
from headwater.metadata.cluster_image import NO_LEADER, ClusterImage, PartitionRegistration
from headwater.replication.partition import Partition
from tests.simulation.labs.kraft_lab import KRaftBroker, KRaftLab, LogApplier
from tests.simulation.labs.lab_node import ClusterLab
from tests.simulation.worlds.cluster_acknowledgements import check
from tests.simulation.worlds.cluster_checks import ClusterChecks, Wiped


def comparable(image: ClusterImage) -> tuple[object, ...]:
    """An image without its version."""
    return (
        dict(image.topics.items()),
        dict(image.brokers),
        dict(image.fenced_brokers),
        image.next_producer_id,
    )


@dataclass(slots=True)
class KRaftChecks(ClusterChecks):
    """Observations of a KRaft cluster; `committed` observes its `CommittedMetadata`."""

    lab: KRaftLab | None = None
    # By offset, from the first replica that applied it.
    changes: dict[int, list[MetadataChange]] = field(default_factory=dict)
    images: dict[int, ClusterImage] = field(default_factory=dict)
    epochs: dict[tuple[NodeId, TopicId], int] = field(default_factory=dict)
    # Raised later: an exception in a replica would be taken for a bug of it.
    failures: list[str] = field(default_factory=list)

    def committed(
        self, applier: LogApplier, changes: Sequence[MetadataChange] | None, offset: int
    ) -> None:
        """A replica applied the log up to an offset."""
        known = self.images.get(offset)
        if known is None:
            self._first_applied(applier.image, changes or (), offset)
        elif changes is None and comparable(known) != comparable(applier.image):
            self.failures.append(f"{applier.name} has another image at offset {offset}")
        # The first replica may have loaded a snapshot, which does not say what the batch changed.
        if changes is not None and self.changes.setdefault(offset, [*changes]) != [*changes]:
            self.failures.append(f"{applier.name} applied other changes at offset {offset}")

    def look(self, lab: ClusterLab) -> None:
        # Not by `super()`, which a dataclass with slots does not have.
        ClusterChecks.look(self, lab)
        assert self.lab is not None
        for each in self.lab.controllers:
            check(not each.fatal, f"controller {each.node_id} cannot go on: {each.fatal}")
        check(not self.failures, f"{self.failures[:1]}")
        for node in self.lab.nodes:
            for hosted in node.partitions if node.is_up else ():
                self._state_is_committed(node, hosted)

    def _state_is_committed(self, node: KRaftBroker, hosted: Partition) -> None:
        """A leader must not act on an answer to AlterPartition that may still be undone."""
        assert self.lab is not None
        topic = self.lab.store.image.topic_by_id(hosted.topic_id)
        if topic is not None:
            committed = topic.partitions[hosted.number].partition_epoch
            check(
                hosted.state.partition_epoch <= committed,
                f"broker {node.node_id} has {hosted.state} of {hosted.name}, and the log has "
                f"committed its partition epoch {committed}",
            )

    def compare(self, lab: ClusterLab, wiped: Wiped) -> None:
        ClusterChecks.compare(self, lab, wiped)
        assert self.lab is not None
        for node in self.lab.nodes:
            known = self.images.get(node.image.version.sequence)
            if node.is_up and node.publisher.has_published and known is not None:
                check(
                    comparable(node.image) == comparable(known),
                    f"broker {node.node_id} has published another image than the log's at offset "
                    f"{node.image.version.sequence}",
                )

    def _first_applied(
        self, image: ClusterImage, changes: Sequence[MetadataChange], offset: int
    ) -> None:
        assert self.lab is not None
        self.images[offset] = image
        before = self.lab.store.image
        if offset <= self.lab.store.offset:
            # A snapshot of an offset at which no batch ended.
            return
        for change in changes:
            if isinstance(change, BrokerRegistered):
                self._check_registration(before, change)
            elif isinstance(change, PartitionChanged):
                place = TopicPartition(change.topic, change.number)
                self._check_epochs(place, before.partition(*place), change.partition)
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                if not topic.is_deleting:
                    self._check_partition(image, TopicPartition(topic.name, number), partition)

    def _check_registration(self, before: ClusterImage, change: BrokerRegistered) -> None:
        assert self.lab is not None
        broker = change.broker
        key = broker.node_id, broker.incarnation_id
        if key not in self.epochs and broker.epoch in self.epochs.values():
            self.failures.append(f"two registrations have the epoch {broker.epoch}")
        if self.epochs.setdefault(key, broker.epoch) != broker.epoch:
            self.failures.append(f"an incarnation of {broker.node_id} has two epochs")
        node = self.lab.nodes[broker.node_id]
        was_fenced = broker.node_id in before.fenced_brokers
        is_itself = node.is_up and node.broker_epoch == broker.epoch
        if was_fenced and not broker.is_fenced and is_itself and not node.publisher.has_published:
            self.failures.append(f"broker {broker.node_id} is unfenced and has no metadata")

    def _check_epochs(
        self,
        place: TopicPartition,
        before: PartitionRegistration | None,
        after: PartitionRegistration,
    ) -> None:
        name = f"{place.topic}-{place.partition}"
        if before is None:
            return
        if after.partition_epoch <= before.partition_epoch:
            self.failures.append(f"the partition epoch of {name} did not grow: {before}, {after}")
        if after.leader_epoch < before.leader_epoch:
            self.failures.append(f"the leader epoch of {name} went back: {before}, {after}")
        if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            self.failures.append(f"{name} has another leader in the same epoch: {before}, {after}")

    def _check_partition(
        self, image: ClusterImage, place: TopicPartition, partition: PartitionRegistration
    ) -> None:
        name = f"{place.topic}-{place.partition}"
        live = [each for each in partition.isr if image.has_replica(each, place)]
        has_elr = is_elr_enabled(image)
        if not set(partition.isr) <= set(partition.replicas) or not (partition.isr or has_elr):
            self.failures.append(f"the ISR of {name} is {partition.isr} of {partition.replicas}")
        if set(partition.elr) & set(partition.isr) or (partition.elr and not has_elr):
            self.failures.append(f"the ISR of {name} is {partition.isr}, its ELR {partition.elr}")
        if partition.elr and has_elr:
            min_isr = min_isr_of(image, place.topic, partition.replicas)
            if len(partition.isr) >= min_isr:
                self.failures.append(f"{name} has ELR {partition.elr} and ISR {partition.isr}")
        if not partition.isr:
            live = [each for each in partition.elr if image.has_replica(each, place)]
        if partition.leader == NO_LEADER:
            if live:
                self.failures.append(f"{name} has no leader, and {live} could lead")
        elif partition.leader not in live:
            self.failures.append(f"{name} is led by {partition.leader}, live are {live}")
        elif len(live) < len(partition.isr):
            self.failures.append(f"{name} has fenced brokers in its ISR {partition.isr}")

    def _all_have_current_metadata(self, lab: ClusterLab) -> None:
        assert self.lab is not None
        active = [each for each in self.lab.controllers if each.is_active]
        check(len(active) == 1, f"{len(active)} active controllers at rest")
        wanted = comparable(lab.store.image)
        check(
            comparable(active[0].services.controller.image) == wanted,
            "the active controller's image is not that of the log at rest",
        )
        for each in self.lab.controllers:
            check(
                comparable(each.loader.image) == wanted,
                f"controller {each.node_id} has another image at rest",
            )
        for node in self.lab.nodes:
            check(
                comparable(node.image) == wanted,
                f"broker {node.node_id} has another image at rest",
            )
            check(
                node.image.controller_id == active[0].node_id,
                f"broker {node.node_id} takes {node.image.controller_id} for the controller",
            )
