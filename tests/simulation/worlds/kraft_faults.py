"""Faults of a simulated KRaft cluster, and which of them it may suffer.

Controllers may crash, lose power, stall and be cut off at any time: their quorum promises nothing
that it has not synced. Brokers may do so as long as fewer than `min.insync.replicas` members of ISR
and ELR of each partition have lost data or the proof that they have it, and one has neither.

Note: without eligible leader replicas that is not enough (see `cluster_fault_limits`). While a
broker that lost data is in an ISR, the other members must keep their sessions; the network and the
controllers are spared until it has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headwater.common.ids import NodeId, TopicPartition
from headwater.controller.eligible_leader_replicas import min_isr_of
from headwater.metadata.cluster_image import PartitionRegistration
from tests.simulation.labs.kraft_lab import (
    HEARTBEAT_MS,
    SESSION_MS,
    KRaftController,
    KRaftLab,
)
from tests.simulation.labs.lab_node import LabNode
from tests.simulation.worlds.cluster_checks import partitions_of
from tests.simulation.worlds.cluster_fault_limits import FaultLimits
from tests.simulation.worlds.cluster_faults import Faults


class KRaftFaultLimits(FaultLimits):
    """Also considers heartbeats, which use the same network as everything else."""

    def __init__(self, lab: KRaftLab) -> None:
        super().__init__(lab, session_ms=SESSION_MS)
        self._kraft = lab
        # Brokers that crashed and kept their data, but cannot prove it; until they join the ISR.
        self._unproven: dict[tuple[TopicPartition, NodeId], None] = {}

    @property
    def is_fragile(self) -> bool:
        """Whether a broker that lost data is in an ISR, which it leads if it is the last one."""
        return not self._kraft.has_elr and any(
            (place, each) in self.wiped
            for place, state in partitions_of(self._lab)
            for each in state.isr
        )

    def may_go(self, node: LabNode) -> bool:
        """Return whether a broker may crash, or be considered dead."""
        if not self._kraft.has_elr:
            return super().may_go(node)
        return all(
            not any(
                (place, each) in self.wiped for each in (*_holders(state), *state.last_known_elr)
            )
            or self._is_kept_by_others(node, place, state)
            for place, state in self._states()
            if node.node_id in _holders(state)
        )

    def may_be_shaken(self, node: LabNode) -> bool:
        # With an ELR, nothing is lost if a session ends.
        return node.is_up if self._kraft.has_elr else super().may_be_shaken(node)

    def may_lose(
        self, node: LabNode, is_lost: Callable[[TopicPartition], bool] = lambda _: True
    ) -> bool:
        """Return whether a broker may lose data; one lost directory costs the proof of all."""
        if not self._kraft.has_elr:
            return super().may_lose(node, is_lost)
        return all(
            self._is_kept_by_others(node, place, state) and not self._is_being_changed(place)
            for place, state in self._states()
            if node.node_id in state.replicas
        )

    def lost(
        self, node: LabNode, is_lost: Callable[[TopicPartition], bool] = lambda _: True
    ) -> None:
        super().lost(node, is_lost)
        self.crashed(node)

    def crashed(self, node: LabNode) -> None:
        """A broker ended without a clean stop."""
        for place, state in self._states():
            if node.node_id in state.replicas:
                self._unproven[place, node.node_id] = None

    def _states(self) -> Iterator[tuple[TopicPartition, PartitionRegistration]]:
        """All partitions as they are in the log, and as the controller is about to change them."""
        yield from partitions_of(self._lab)
        active = self._kraft.active
        if active is not None:
            for topic in active.services.controller.proposed.topics.values():
                for number, state in enumerate(topic.partitions):
                    yield TopicPartition(topic.name, number), state

    def _is_kept_by_others(
        self, node: LabNode, place: TopicPartition, state: PartitionRegistration
    ) -> bool:
        """Return whether fewer than `min.insync.replicas` replicas have lost data or their proof.

        That many have a committed record. With as many lost, the controller may take them for an
        ISR that is large enough, and forget the others.
        """
        others = [each for each in _holders(state) if each != node.node_id]
        sound = [
            each
            for each in others
            if (place, each) not in self.wiped and (place, each) not in self._unproven
        ]
        min_isr = min_isr_of(self._lab.store.image, place.topic, state.replicas)
        return bool(sound) and len(others) - len(sound) + 1 < min_isr

    def _has_joined(self, place: TopicPartition, node_id: NodeId) -> None:
        super()._has_joined(place, node_id)
        self._unproven.pop((place, node_id), None)

    def _forget(self, topic: str) -> None:
        super()._forget(topic)
        for key in [each for each in self._unproven if each[0].topic == topic]:
            del self._unproven[key]

    def _is_safe(self, node_id: NodeId) -> bool:
        """Return whether a broker's session goes on, unless there are further faults."""
        node = self._kraft.nodes[node_id]
        if not super()._is_safe(node_id) or node.stall.is_on or self._lab.network.has_cuts:
            return False
        is_known = self._is_itself(node_id)
        silent_ms = self._lab.time.now_ms - node.heartbeats.answered_ms
        return is_known and node.has_joined and silent_ms < 2 * HEARTBEAT_MS


class KRaftFaults(Faults):
    """Faults of brokers, controllers and the network between all of them."""

    def __init__(self, lab: KRaftLab, mercy: KRaftFaultLimits, say: Callable[[str], None]) -> None:
        self._kraft = lab
        self._limits = mercy
        super().__init__(lab, mercy, say)

    def end(self) -> None:
        super().end()
        for each in self._kraft.controllers:
            if each.is_up and each.stall.is_on:
                each.thaw()
            each.slow_down(0)

    def mend(self) -> None:
        super().mend()
        self._start_controllers()

    def _further_deeds(self) -> list[Callable[[], None]]:
        return [
            *(self._crash_controller,) * 2,
            *(self._start_controllers,) * 3,
            self._stop_controller,
            self._cut_controller,
            self._freeze_controller,
            self._slow_controller,
            self._set_controller_clock,
        ]

    def _crash_now(self, node: LabNode, *, loses_power: bool = False) -> None:
        self._limits.crashed(node)
        super()._crash_now(node, loses_power=loses_power)

    def _cut(self) -> None:
        if not self._limits.is_fragile:
            super()._cut()

    def _some_controller(self) -> KRaftController:
        """Often the active one."""
        active = self._kraft.active
        if active is not None and self._rng.random() < 0.5:
            return active
        return self._rng.choice(self._kraft.controllers)

    def _crash_controller(self) -> None:
        node, loses_power = self._some_controller(), self._rng.random() < 0.5
        if node.is_up and not self._limits.is_fragile:
            self._say(f"controller {node.node_id} {'loses power' if loses_power else 'dies'}")
            node.crash(loses_power=loses_power)

    def _stop_controller(self) -> None:
        node = self._some_controller()
        if node.is_up and not node.stall.is_on and not self._limits.is_fragile:
            self._say(f"controller {node.node_id} stops")
            node.stop()

    def _start_controllers(self) -> None:
        for node in self._kraft.controllers:
            if not node.is_up:
                self._say(f"controller {node.node_id} starts")
                node.start()

    def _cut_controller(self) -> None:
        node = self._some_controller()
        if self._limits.is_fragile:
            return
        if self._rng.random() < 0.5:
            self._say(f"controller {node.node_id} is isolated")
            self._lab.network.isolate(node.node_id)
        else:
            # Requests are lost in one direction, so its followers may still fetch, or not at all.
            other = self._rng.choice(self._kraft.controllers)
            if other is not node:
                self._say(f"controller {node.node_id} does not reach {other.node_id}")
                self._lab.network.cut_one_way(node.node_id, other.node_id)

    def _freeze_controller(self) -> None:
        node, span_ms = self._some_controller(), self._rng.randrange(2 * SESSION_MS)
        if not node.is_up or node.stall.is_on or self._limits.is_fragile:
            return
        self._say(f"controller {node.node_id} does not run for {span_ms} ms")
        node.freeze()
        life = node.life

        def thaw() -> None:
            if node.life == life and node.stall.is_on:
                self._say(f"controller {node.node_id} runs again")
                node.thaw()

        self._lab.time.after(span_ms, thaw)

    def _slow_controller(self) -> None:
        node, is_slow = self._some_controller(), self._rng.random() < 0.5
        node.slow_down(200 if is_slow else 0)
        self._say(f"the disk of controller {node.node_id} is {'slow' if is_slow else 'quick'}")

    def _set_controller_clock(self) -> None:
        node, jump_ms = self._some_controller(), self._rng.randint(-60_000, 60_000)
        node.clock.skew_ms += jump_ms
        self._say(f"the clock of controller {node.node_id} jumps by {jump_ms} ms")


def _holders(state: PartitionRegistration) -> tuple[NodeId, ...]:
    """Brokers that the controller takes to have every committed record."""
    return (*state.isr, *state.elr)
