"""Which faults a simulated cluster may suffer without losing its guarantees.

Records that all ISR members acknowledged survive while one member keeps its data and is not
considered dead while another one that lost data is still in the ISR. Faults are checked here first.

Note: the effects of a fault come later. An ISR change or the end of a session may be in flight, so
a broker that this may happen to does not count as safe.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.metadata.cluster_image import PartitionRegistration
from tests.simulation.labs.lab_node import DIRECTORIES, ClusterLab, LabNode
from tests.simulation.worlds.cluster_checks import partitions_of

SESSION_MS: Final = 1_500
_SHAKY_MS: Final = 1_000
_FOR_EVER_MS: Final = 1 << 60


def _every(_: TopicPartition) -> bool:
    return True


class FaultLimits:
    """Tracks which brokers lost data, and which may be considered dead."""

    def __init__(self, lab: ClusterLab, *, session_ms: int = SESSION_MS) -> None:
        self._lab = lab
        self.session_ms = session_ms
        # Brokers that lost data and have not joined the ISR again since.
        self.wiped: dict[tuple[TopicPartition, NodeId], None] = {}
        self._shaky_until_ms: dict[NodeId, int] = {}
        self._isr: dict[TopicPartition, tuple[NodeId, ...]] = {}
        self._ids: dict[str, TopicId] = {}

    # Checks.

    def may_go(self, node: LabNode) -> bool:
        """Return whether a broker may die or be considered dead.

        While one that lost power is still in the ISR, the others in the ISR must stay: otherwise
        the one that lost data would remain alone.
        """
        return not any(
            node.node_id in state.isr and any((place, each) in self.wiped for each in state.isr)
            for place, state in partitions_of(self._lab)
        )

    def may_be_shaken(self, node: LabNode) -> bool:
        """Return whether a session may end, now or at some time to come."""
        is_shaken = self._shaky_until_ms.get(node.node_id) == _FOR_EVER_MS
        return node.is_up and not is_shaken and self.may_go(node)

    def may_lose(self, node: LabNode, is_lost: Callable[[TopicPartition], bool] = _every) -> bool:
        """Return whether other brokers keep what is committed, in every partition of these."""
        return all(
            self._is_kept_without(node.node_id, place, state)
            for place, state in partitions_of(self._lab)
            if node.node_id in state.replicas and is_lost(place)
        )

    def _is_kept_without(
        self, node_id: NodeId, place: TopicPartition, state: PartitionRegistration
    ) -> bool:
        others = [each for each in state.isr if each != node_id]
        kept = [each for each in others if (place, each) not in self.wiped]
        return bool(kept) and all(map(self._is_safe, kept)) and not self._is_being_changed(place)

    def _is_safe(self, node_id: NodeId) -> bool:
        is_shaky = self._shaky_until_ms.get(node_id, 0) > self._lab.time.now_ms
        return self._lab.nodes[node_id].is_up and not is_shaky

    def _is_being_changed(self, place: TopicPartition) -> bool:
        """Return whether a leader has proposed to shrink the ISR, which may take effect later."""
        found = [node.partitions.find(*place) for node in self._lab.nodes if node.is_up]
        return any(hosted is not None and hosted.proposal is not None for hosted in found)

    # Events.

    def lost(self, node: LabNode, is_lost: Callable[[TopicPartition], bool] = _every) -> None:
        """A broker may have lost data of some partitions."""
        for place, state in partitions_of(self._lab):
            if node.node_id in state.replicas and is_lost(place):
                self.wiped[place, node.node_id] = None

    def shake(self, node: LabNode) -> None:
        """It may be considered dead, with no known end."""
        self._shaky_until_ms[node.node_id] = _FOR_EVER_MS

    def shake_for_a_while(self, node: LabNode) -> None:
        """It may be considered dead for as long as its session may last."""
        self._shaky_until_ms[node.node_id] = self._lab.time.now_ms + self.session_ms + _SHAKY_MS

    def note_in_sync(self) -> None:
        """To be called often, so that no state of the store is missed."""
        for name, topic in self._lab.store.image.topics.items():
            if self._ids.setdefault(name, topic.topic_id) != topic.topic_id:
                self._forget(name)
                self._ids[name] = topic.topic_id
        for place, state in partitions_of(self._lab):
            before = self._isr.get(place)
            if before == state.isr:
                continue
            self._isr[place] = state.isr
            for node_id in state.isr:
                if before is not None and node_id not in before and self._is_itself(node_id):
                    self._has_joined(place, node_id)

    def _has_joined(self, place: TopicPartition, node_id: NodeId) -> None:
        """A broker has joined an ISR, and so has what was committed, unless its disk is broken.

        A follower of an idle partition joins with what it knows of its log, and notices the disk
        with the next write.
        """
        node = self._lab.nodes[node_id]
        path = node.directory_of(place)
        paths = DIRECTORIES if path is None else (path,)
        if not any(map(node.disk.is_broken, paths)):
            self.wiped.pop((place, node_id), None)

    def _forget(self, topic: str) -> None:
        """Another topic has this name now, of which no broker has lost data."""
        for place in [each for each in self._isr if each.topic == topic]:
            del self._isr[place]
        for key in [each for each in self.wiped if each[0].topic == topic]:
            del self.wiped[key]

    def _is_itself(self, node_id: NodeId) -> bool:
        """Return whether the store refers to the current process and not to a former one.

        A leader may add a broker to the ISR that has just died.
        """
        node, known = self._lab.nodes[node_id], self._lab.store.image.brokers.get(node_id)
        return node.is_up and known is not None and known.epoch == node.broker_epoch
