"""Invariants of replicas at every moment.

Each check is a function of the world and of earlier observations.

Note: a broker that is down is not checked, and one that returns is another one: its high watermark
may be lower than before, since it is checkpointed only periodically.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.common.ids import NodeId
from headwater.records.batch_header import read_header
from headwater.records.record_reader import read_records
from tests.simulation.worlds.replica_nodes import ReplicaNode
from tests.simulation.worlds.replica_world import ReplicaWorld, content


class CheckFailed(AssertionError):
    """A guarantee was violated."""


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise CheckFailed(what)


Place = tuple[int, int]
"""A partition and an offset in it."""


@dataclass(slots=True)
class ReplicationChecks:
    """Observations of a topic."""

    leaders: dict[Place, NodeId] = field(default_factory=dict)
    watermarks: dict[tuple[int, NodeId, int, int], int] = field(default_factory=dict)
    # What clients got: acknowledgements, and records of consumers.
    acknowledged: dict[Place, bytes] = field(default_factory=dict)
    seen: dict[Place, bytes] = field(default_factory=dict)

    def look(self, world: ReplicaWorld) -> None:
        """Cheap checks, after every step."""
        for number in range(world.partitions):
            for node in _open_nodes(world, number):
                self._one_leader_per_epoch(node, number)
                self._watermark_stays(node, number)

    def compare(self, world: ReplicaWorld) -> None:
        """Checks that read the logs."""
        for number in range(world.partitions):
            nodes = _open_nodes(world, number)
            logs = {node.node_id: batches_of(content(node, number)) for node in nodes}
            _same_below_watermarks(nodes, number, logs)
            _in_sync_replicas_have_what_is_committed(world, number, logs)
            for node in nodes:
                leader = world.controller.state_of(number).leader
                if node.hosted_at(number).is_leader and node.node_id == leader:
                    self._nothing_vanished(node, number)

    def finish(self, world: ReplicaWorld) -> None:
        """All brokers are live and idle."""
        self.compare(world)
        for number in range(world.partitions):
            logs = [content(node, number) for node in world.nodes]
            _check(all(log == logs[0] for log in logs), f"logs of {number} at rest differ")
            leader = world.nodes[world.controller.state_of(number).leader]
            self._nothing_vanished(leader, number)
            log = leader.hosted_at(number).open_log()
            _check(
                log.high_watermark == log.end_offset,
                f"{log.high_watermark} of {log.end_offset} committed at rest in {number}",
            )

    def note_seen(self, number: int, records: dict[int, bytes], who: str) -> None:
        """A consumer has read these."""
        for offset, value in records.items():
            known = self.seen.setdefault((number, offset), value)
            _check(known == value, f"{who}: {number}@{offset} was {known!r} and is {value!r}")

    def _one_leader_per_epoch(self, node: ReplicaNode, number: int) -> None:
        hosted = node.hosted_at(number)
        if hosted.is_leader:
            epoch = hosted.leader_epoch
            leader = self.leaders.setdefault((number, epoch), node.node_id)
            _check(leader == node.node_id, f"{leader} and {node.node_id} lead in epoch {epoch}")

    def _watermark_stays(self, node: ReplicaNode, number: int) -> None:
        hosted = node.hosted_at(number)
        if not hosted.is_leader or hosted.log is None:
            return
        key = (number, node.node_id, node.life, hosted.leader_epoch)
        now = hosted.log.high_watermark
        before = self.watermarks.get(key, 0)
        _check(now >= before, f"the watermark of {node.node_id} went from {before} to {now}")
        self.watermarks[key] = now

    def _nothing_vanished(self, leader: ReplicaNode, number: int) -> None:
        values = values_of(content(leader, number))
        for told, places in (("acknowledged", self.acknowledged), ("seen", self.seen)):
            for (partition, offset), value in places.items():
                found = values.get(offset)
                _check(
                    partition != number or found == value,
                    f"{told} {value!r} at {number}@{offset}, {leader.node_id} has {found!r}",
                )


def _open_nodes(world: ReplicaWorld, number: int) -> list[ReplicaNode]:
    return [
        node
        for node in world.nodes
        if node.is_up and (hosted := node.find(number)) is not None and hosted.log is not None
    ]


def _same_below_watermarks(
    nodes: list[ReplicaNode], number: int, logs: dict[NodeId, dict[int, bytes]]
) -> None:
    """What two brokers both consider committed is the same."""
    for one in nodes:
        for other in nodes:
            if one.node_id < other.node_id:
                limit = min(_watermark(one, number), _watermark(other, number))
                _check(
                    _below(logs[one.node_id], limit) == _below(logs[other.node_id], limit),
                    f"{one.node_id} and {other.node_id} differ below {number}@{limit}",
                )


def _in_sync_replicas_have_what_is_committed(
    world: ReplicaWorld, number: int, logs: dict[NodeId, dict[int, bytes]]
) -> None:
    """As the controller sees it: every ISR member that may be elected has everything."""
    state = world.controller.state_of(number)
    nodes = {node.node_id: node for node in _open_nodes(world, number)}
    leader = nodes.get(state.leader)
    if leader is None or leader.hosted_at(number).leader_epoch != state.leader_epoch:
        return
    limit = _watermark(leader, number)
    for node_id in state.isr:
        # One that died is not checked.
        if node_id in nodes and node_id in world.controller.image.brokers:
            _check(
                _below(logs[node_id], limit) == _below(logs[state.leader], limit),
                f"{node_id} is in sync and lacks what {state.leader} has committed up to "
                f"{number}@{limit}",
            )


def _watermark(node: ReplicaNode, number: int) -> int:
    return node.hosted_at(number).open_log().high_watermark


def _below(batches: dict[int, bytes], limit: int) -> dict[int, bytes]:
    return {offset: batch for offset, batch in batches.items() if offset < limit}


def batches_of(log: bytes) -> dict[int, bytes]:
    """Each batch by its base offset."""
    found, position = {}, 0
    while position < len(log):
        header = read_header(log, position)
        found[header.base_offset] = log[position : position + header.size_bytes]
        position += header.size_bytes
    return found


def values_of(log: bytes) -> dict[int, bytes]:
    """The values of all complete batches, by offset."""
    found = {}
    for batch in batches_of(log).values():
        for record in read_records(batch, read_header(batch)):
            assert record.offset is not None
            assert record.value is not None
            found[record.offset] = record.value
    return found
