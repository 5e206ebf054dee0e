"""Invariants of a whole cluster: at every moment, and when it is idle.

The store's state counts; brokers and controller follow it.

Note: a broker that lost power is not expected to have what the ISR has until it has joined the ISR
again, since its loss may not have been noticed yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.metadata.cluster_image import NO_LEADER, PartitionRegistration
from headwater.replication.partition import Partition
from headwater.storage.log_manager.partition_directory_names import (
    DirectoryKind,
    parse_directory_name,
)
from tests.simulation.labs.cluster_node_lab import ClusterNodeLab
from tests.simulation.labs.lab_node import DIRECTORIES, ClusterLab, LabNode
from tests.simulation.worlds.cluster_acknowledgements import ClientGuarantees, check
from tests.simulation.worlds.cluster_clients import TOPIC
from tests.simulation.worlds.cluster_records import Batch, log_of

Wiped = Mapping[tuple[TopicPartition, NodeId], None]


@dataclass(slots=True)
class ClusterChecks:
    """Observations of a cluster."""

    told: ClientGuarantees
    leaders: dict[tuple[TopicId, TopicPartition, int], tuple[NodeId, int]] = field(
        default_factory=dict
    )
    watermarks: dict[tuple[TopicId, TopicPartition, NodeId, int, int], int] = field(
        default_factory=dict
    )

    def look(self, lab: ClusterLab) -> None:
        """Cheap checks, after every step."""
        for node in lab.nodes:
            check(not node.fatal, f"broker {node.node_id} cannot go on: {node.fatal}")
            if node.is_up:
                for hosted in node.partitions:
                    if hosted.is_leader:
                        self._one_leader_per_epoch(node, hosted)
                        self._watermark_stays(node, hosted)

    def compare(self, lab: ClusterLab, wiped: Wiped) -> None:
        """Checks that read the logs."""
        for place, state in partitions_of(lab):
            hosting = _hosting(lab, place)
            logs = {node_id: log_of(hosted) for node_id, hosted in hosting.items()}
            _same_below_watermarks(place, hosting, logs)
            leader = hosting.get(state.leader)
            if leader is None or leader.leader_epoch != state.leader_epoch or not leader.is_leader:
                continue
            limit = leader.open_log().high_watermark
            committed = _below(logs[state.leader], limit)
            for node_id in state.isr:
                if node_id in hosting and (place, node_id) not in wiped:
                    check(
                        _below(logs[node_id], limit) == committed,
                        f"{node_id} is in sync and lacks what {state.leader} has committed up to "
                        f"{place.topic}-{place.partition}@{limit}",
                    )
            self._nothing_vanished(lab, place, logs[state.leader], f"broker {state.leader}")

    def _nothing_vanished(
        self, lab: ClusterLab, place: TopicPartition, log: Sequence[Batch], who: str
    ) -> None:
        if place.topic == TOPIC:
            self.told.nothing_vanished(place, log, who)
        incarnation = self.told.incarnations.get(lab.store.image.topics[place.topic].topic_id)
        if incarnation is not None and not incarnation.is_going:
            incarnation.nothing_vanished(place.partition, log, who)

    def finish(self, lab: ClusterLab) -> None:
        """All brokers are live and idle: everything is as without any fault."""
        self.compare(lab, {})
        self._all_have_current_metadata(lab)
        _all_hold_what_they_should(lab)
        self._topics_are_as_asked(lab)
        for place, state in partitions_of(lab):
            name = f"{place.topic}-{place.partition}"
            check(state.leader != NO_LEADER, f"{name} has no leader at rest")
            check(not state.adding + state.removing, f"{name} is being moved at rest: {state}")
            check(
                sorted(state.isr) == sorted(state.replicas),
                f"of {state.replicas} only {state.isr} are in sync in {name} at rest",
            )
            hosting = _hosting(lab, place)
            logs = [_bytes(log_of(hosting[each])) for each in state.replicas]
            check(all(each == logs[0] for each in logs), f"logs of {name} at rest differ")
            leader = hosting[state.leader].open_log()
            check(
                leader.high_watermark == leader.end_offset,
                f"{leader.high_watermark} of {leader.end_offset} committed at rest in {name}",
            )
            log = log_of(hosting[state.leader])
            if place.topic == TOPIC:
                self.told.once_and_in_order(place, log)
            incarnation = self.told.incarnations.get(hosting[state.leader].topic_id)
            if incarnation is not None:
                incarnation.nothing_inherited(log, name)

    def _all_have_current_metadata(self, lab: ClusterLab) -> None:
        assert isinstance(lab, ClusterNodeLab)
        leaders = [node for node in lab.nodes if node.membership.controller is not None]
        check(len(leaders) == 1, f"{len(leaders)} controllers at rest")
        (controller,) = leaders
        assert controller.membership.controller is not None
        decided = controller.membership.controller.image
        check(
            dict(decided.topics) == dict(lab.store.image.topics),
            "the controller knows another state",
        )
        for node in lab.nodes:
            check(
                node.image.controller_id == controller.node_id,
                f"broker {node.node_id} takes {node.image.controller_id} for the controller",
            )
            check(
                dict(node.image.topics) == dict(decided.topics),
                f"broker {node.node_id} does not have the controller's topics",
            )
            check(
                sorted(node.image.brokers) == sorted(decided.brokers),
                f"broker {node.node_id} knows of {sorted(node.image.brokers)} only",
            )

    def _topics_are_as_asked(self, lab: ClusterLab) -> None:
        """Deleted topics are gone, and created ones exist."""
        topics = {each.topic_id: each for each in lab.store.image.topics.values()}
        for topic_id, incarnation in self.told.incarnations.items():
            check(
                not (incarnation.is_disconnected and topic_id in topics),
                f"incarnation {incarnation.number} was deleted, and is there",
            )
            check(
                incarnation.is_going or topic_id in topics,
                f"incarnation {incarnation.number} was made, and is not there",
            )
        deleting = [each.name for each in topics.values() if each.is_deleting]
        check(not deleting, f"{deleting} are on their way out at rest")

    def _one_leader_per_epoch(self, node: LabNode, hosted: Partition) -> None:
        """A new process on the same disk counts as another leader."""
        key = hosted.topic_id, hosted.name, hosted.leader_epoch
        leader = self.leaders.setdefault(key, (node.node_id, node.life))
        check(
            leader == (node.node_id, node.life),
            f"{leader} and {(node.node_id, node.life)} lead {hosted.name} in epoch "
            f"{hosted.leader_epoch}",
        )

    def _watermark_stays(self, node: LabNode, hosted: Partition) -> None:
        if hosted.log is None:
            return
        key = (hosted.topic_id, hosted.name, node.node_id, node.life, hosted.leader_epoch)
        now, before = hosted.log.high_watermark, self.watermarks.get(key, 0)
        check(
            now >= before,
            f"the watermark of {node.node_id} in {hosted.name} went from {before} to {now}",
        )
        self.watermarks[key] = now


def partitions_of(lab: ClusterLab) -> Iterator[tuple[TopicPartition, PartitionRegistration]]:
    """All partitions in the store."""
    for topic in lab.store.image.topics.values():
        for number, state in enumerate(topic.partitions):
            yield TopicPartition(topic.name, number), state


def _hosting(lab: ClusterLab, place: TopicPartition) -> dict[NodeId, Partition]:
    """Brokers that have its log open on a readable disk."""
    found = {}
    topic_id = lab.store.image.topics[place.topic].topic_id
    for node in lab.nodes:
        hosted = node.partitions.find(*place) if node.is_up else None
        # Some may still have an older topic of the same name.
        if hosted is None or hosted.log is None or hosted.topic_id != topic_id:
            continue
        path = node.directory_of(place)
        if path is not None and not node.disk.is_broken(path):
            found[node.node_id] = hosted
    return found


def _same_below_watermarks(
    place: TopicPartition,
    hosting: Mapping[NodeId, Partition],
    logs: Mapping[NodeId, Sequence[Batch]],
) -> None:
    """What two brokers both consider committed is the same."""
    for one, other in ((one, other) for one in hosting for other in hosting if one < other):
        limit = min(hosting[each].open_log().high_watermark for each in (one, other))
        check(
            _below(logs[one], limit) == _below(logs[other], limit),
            f"{one} and {other} differ below {place.topic}-{place.partition}@{limit}",
        )


def _all_hold_what_they_should(lab: ClusterLab) -> None:
    """And nothing else, neither in memory nor on their disks."""
    for node in lab.nodes:
        wanted = sorted(
            place for place, state in partitions_of(lab) if node.node_id in state.replicas
        )
        hosted = sorted(each.name for each in node.partitions)
        check(hosted == wanted, f"broker {node.node_id} holds {hosted}, and not {wanted}")
        folders = sorted(
            folder.partition
            for path in DIRECTORIES
            for folder in map(parse_directory_name, node.disk.names(path))
            if folder is not None and folder.kind is DirectoryKind.LIVE
        )
        check(folders == wanted, f"broker {node.node_id} has folders of {folders}, not {wanted}")


def _below(batches: Sequence[Batch], limit: int) -> list[bytes]:
    return [batch.content for batch in batches if batch.base_offset < limit]


def _bytes(batches: Sequence[Batch]) -> bytes:
    return b"".join(batch.content for batch in batches)
