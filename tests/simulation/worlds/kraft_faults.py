"""Faults of a simulated KRaft cluster, and which of them it may suffer.

Controllers may crash, lose power, stall and be cut off at any time: their quorum promises nothing
that it has not synced. For brokers the limits of `cluster_fault_limits` apply.

Note: while a broker that lost data is in an ISR, the other members must keep their sessions. So the
network and the controllers are spared until it has left.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.common.ids import NodeId
from tests.simulation.labs.kraft_lab import (
    HEARTBEAT_MS,
    SESSION_MS,
    KRaftController,
    KRaftLab,
)
from tests.simulation.worlds.cluster_checks import partitions_of
from tests.simulation.worlds.cluster_fault_limits import FaultLimits
from tests.simulation.worlds.cluster_faults import Faults


class KRaftFaultLimits(FaultLimits):
    """Also considers heartbeats, which use the same network as everything else."""

    def __init__(self, lab: KRaftLab) -> None:
        super().__init__(lab, session_ms=SESSION_MS)
        self._kraft = lab

    @property
    def is_fragile(self) -> bool:
        """Whether a broker that lost data is in an ISR."""
        return any(
            (place, each) in self.wiped
            for place, state in partitions_of(self._lab)
            for each in state.isr
        )

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
