"""Faults of brokers in a simulated cluster: crashes, power cuts, disks, links.

`Faults` has those of every cluster, `StoreFaults` those of one with a store and sessions.

Note: a fault that would break the guarantees is skipped, even if the random source chose it (see
`cluster_fault_limits`). In small clusters that is often the case.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Final

from headwater.common.ids import NodeId, TopicPartition
from headwater.metadata.cluster_image import NO_CONTROLLER
from tests.simulation.labs.cluster_node_lab import ClusterNodeLab, MemberNode
from tests.simulation.labs.lab_node import DIRECTORIES, ClusterLab, LabNode
from tests.simulation.worlds.cluster_fault_limits import FaultLimits

_SLOW_MS: Final = 400
_JUMP_MS: Final = 60_000


class Faults:
    """`say` is called with each fault."""

    def __init__(self, lab: ClusterLab, mercy: FaultLimits, say: Callable[[str], None]) -> None:
        self._lab = lab
        self._rng = lab.time.rand
        self._mercy = mercy
        self._say = say
        # Brokers still to be restarted, one after the other.
        self._rolling: list[LabNode] = []
        self._stopping: LabNode | None = None
        self._deeds: list[Callable[[], None]] = [
            *(self._crash,) * 2,
            *(self._restart,) * 3,
            self._cut,
            *(self._heal,) * 2,
            *self._further_deeds(),
            self._stop,
            self._roll,
            self._freeze,
            self._break_disk,
            *(self._slow_down,) * 2,
            self._jump,
        ]

    def _further_deeds(self) -> list[Callable[[], None]]:
        """Faults of one kind of cluster."""
        return []

    def strike(self) -> None:
        """One of them, or most often none."""
        number = self._rng.randrange(38)
        if number < len(self._deeds):
            self._deeds[number]()
        self._roll_on()

    def end(self) -> None:
        """No more faults: repair everything and start all brokers."""
        self._rolling.clear()
        self._lab.network.heal()
        for node in self._lab.nodes:
            if node.is_up and node.stall.is_on:
                node.thaw()
            # Also of one that is down, for its next start.
            node.slow_down(0)

    @property
    def are_mended(self) -> bool:
        return all(
            node.is_up and not any(map(node.disk.is_broken, DIRECTORIES))
            for node in self._lab.nodes
        )

    def mend(self) -> None:
        """Start brokers that are down, and restart those with a failed disk."""
        for node in self._lab.nodes:
            if not node.is_up:
                self._start(node)
            elif any(map(node.disk.is_broken, DIRECTORIES)) and self._mercy.may_go(node):
                self._say(f"{node.node_id} ends, for its disk")
                self._crash_now(node)

    # Faults of brokers.

    def _some(self) -> LabNode:
        return self._rng.choice(self._lab.nodes)

    def _victim(self, node: LabNode) -> LabNode:
        """The broker that crashes, if a random one was chosen."""
        return node

    def _heal(self) -> None:
        self._lab.network.heal()

    def _crash(self) -> None:
        chosen, loses_power = self._some(), self._rng.random() < 0.5
        node = self._victim(chosen)
        is_authorized = self._mercy.may_lose if loses_power else self._mercy.may_go
        if not node.is_up or not is_authorized(node):
            return
        self._say(f"{node.node_id} {'loses power' if loses_power else 'dies'}")
        self._crash_now(node, loses_power=loses_power)
        self._mercy.shake_for_a_while(node)
        if loses_power:
            self._mercy.lost(node)

    def _crash_now(self, node: LabNode, *, loses_power: bool = False) -> None:
        node.crash(loses_power=loses_power)

    def _restart(self) -> None:
        down = [node for node in self._lab.nodes if not node.is_up]
        if down:
            self._start(self._rng.choice(down))

    def _start(self, node: LabNode) -> None:
        for path in DIRECTORIES:
            if node.disk.is_broken(path):
                self._mend_disk(node, path)
        self._say(f"{node.node_id} starts")
        # A former session may still have to end.
        self._mercy.shake_for_a_while(node)
        node.start()

    def _cut(self) -> None:
        node, other = self._some(), self._some()
        if self._rng.random() < 0.5:
            self._lab.network.isolate(node.node_id)
            self._say(f"{node.node_id} is isolated")
        elif other is not node:
            self._lab.network.cut_one_way(node.node_id, other.node_id)
            self._say(f"{node.node_id} does not reach {other.node_id}")

    def _freeze(self) -> None:
        """For less than its session lasts, or for longer."""
        node = self._some()
        if not self._mercy.may_be_shaken(node):
            return
        span_ms = self._rng.randrange(3 * self._mercy.session_ms)
        self._say(f"{node.node_id} does not run for {span_ms} ms")
        self._mercy.shake(node)
        node.freeze()
        life = node.life

        def thaw() -> None:
            if node.life == life and node.stall.is_on:
                self._say(f"{node.node_id} runs again")
                self._mercy.shake_for_a_while(node)
                node.thaw()

        self._lab.time.after(span_ms, thaw)

    def _jump(self) -> None:
        """Set its clock."""
        node, jump_ms = self._some(), self._rng.randint(-_JUMP_MS, _JUMP_MS)
        node.clock.skew_ms += jump_ms
        self._say(f"the clock of {node.node_id} jumps by {jump_ms} ms")

    # Disks.

    def _slow_down(self) -> None:
        node, is_slow = self._some(), self._rng.random() < 0.5
        if node.is_up:
            node.slow_down(_SLOW_MS if is_slow else 0)
            self._say(f"the disk of {node.node_id} is {'slow' if is_slow else 'quick'}")

    def _break_disk(self) -> None:
        """One of its disks fails, until it is replaced."""
        node, path = self._some(), self._rng.choice(DIRECTORIES)
        if not node.is_up or any(map(node.disk.is_broken, DIRECTORIES)):
            return

        # It is unknown on which disk a partition without a folder will be.
        if any(node.directory_of(each.name) is None for each in node.partitions):
            return

        def is_lost(place: TopicPartition) -> bool:
            return node.directory_of(place) == path

        if self._mercy.may_lose(node, is_lost):
            self._mercy.lost(node, is_lost)
            node.disk.break_under(path)
            self._say(f"the disk of {node.node_id} under {path} fails")

    def _mend_disk(self, node: LabNode, path: PurePath) -> None:
        node.disk.repair(path)
        is_new = self._rng.random() < 0.5
        if is_new:
            node.disk.remove_tree(path)
            node.disk.make_directory(path)
            node.disk.sync_directory(path.parent)
        self._say(f"{node.node_id} {'has a new disk' if is_new else 'can use'} {path}")

    # Clean stops.

    def _stop(self) -> None:
        """It is started again later."""
        self._take_leave(self._some())

    def _take_leave(self, node: LabNode) -> bool:
        is_authorized = self._mercy.may_be_shaken(node)
        if is_authorized:
            self._say(f"{node.node_id} is told to stop")
            self._mercy.shake(node)
            node.stop()
        return is_authorized

    def _roll(self) -> None:
        """Restart one broker after the other, as for an upgrade."""
        if not self._rolling and self._stopping is None:
            self._say("a rolling restart begins")
            self._rolling = list(self._lab.nodes)

    def _roll_on(self) -> None:
        stopping = self._stopping
        if stopping is not None:
            if not stopping.is_up:
                self._start(stopping)
                self._stopping = None
            return
        is_whole = all(node.is_serving for node in self._lab.nodes)
        if self._rolling and is_whole and self._take_leave(self._rolling[0]):
            self._stopping = self._rolling.pop(0)


class StoreFaults(Faults):
    """Also ends sessions and controllers, and cuts brokers off from the store."""

    def __init__(self, lab: ClusterNodeLab, mercy: FaultLimits, say: Callable[[str], None]) -> None:
        self._members = lab
        self._cut_off: dict[NodeId, None] = {}
        super().__init__(lab, mercy, say)

    def end(self) -> None:
        super().end()
        for node in self._members.nodes:
            if node.is_up:
                node.session.heal()

    def _further_deeds(self) -> list[Callable[[], None]]:
        return [
            self._expire,
            self._unregister,
            self._depose,
            self._lose_store,
            *(self._find_store,) * 2,
        ]

    def _victim(self, node: LabNode) -> LabNode:
        """Often the controller."""
        controller_id = self._members.store.image.controller_id
        if self._rng.random() < 0.3 and controller_id != NO_CONTROLLER:
            return self._members.nodes[controller_id]
        return node

    def _some_member(self) -> MemberNode:
        return self._rng.choice(self._members.nodes)

    def _expire(self) -> None:
        node = self._some_member()
        if self._mercy.may_be_shaken(node):
            self._mercy.shake_for_a_while(node)
            node.session.expire()
            self._say(f"the session of {node.node_id} ends")

    def _unregister(self) -> None:
        """It is considered dead, although it and its session live."""
        node = self._some_member()
        if self._mercy.may_be_shaken(node):
            self._mercy.shake_for_a_while(node)
            self._members.store.unregister(node.node_id)
            self._say(f"{node.node_id} is registered no more")

    def _depose(self) -> None:
        """The controller is considered dead, although it lives."""
        controller_id = self._members.store.image.controller_id
        if controller_id != NO_CONTROLLER:
            self._members.store.end_control(controller_id)
            self._say(f"{controller_id} is the controller no more")

    def _lose_store(self) -> None:
        node = self._some_member()
        if self._mercy.may_be_shaken(node):
            self._mercy.shake(node)
            self._cut_off[node.node_id] = None
            node.session.cut()
            self._say(f"{node.node_id} does not reach the store")

    def _find_store(self) -> None:
        for node in self._members.nodes:
            if node.node_id in self._cut_off:
                del self._cut_off[node.node_id]
                if node.is_up:
                    node.session.heal()
                    self._mercy.shake_for_a_while(node)
                    self._say(f"{node.node_id} reaches the store")
