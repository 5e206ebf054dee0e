"""What must be true of replicas at every moment, whatever happens to them.

Each check is a function of what the world looks like and of what was seen of it before. What a
reader would get wrong: a broker that is down is not looked at, and one that comes back is another
one: the watermark of its log may be lower than it was, since it is written down now and then only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.model.ids import NodeId
from headwater.records.header import read_header
from headwater.records.reading import read_records
from tests.sim.replica_lab import ReplicaNode
from tests.sim.replica_world import ReplicaWorld, content


class CheckFailed(AssertionError):
    """A promise was broken."""


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise CheckFailed(what)


@dataclass(slots=True)
class ReplicationChecks:
    """All that was seen of one partition."""

    leaders: dict[int, NodeId] = field(default_factory=dict)
    watermarks: dict[tuple[NodeId, int, int], int] = field(default_factory=dict)
    # What clients were told: acknowledged, and read by consumers.
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    seen: dict[int, bytes] = field(default_factory=dict)

    def look(self, world: ReplicaWorld) -> None:
        """The cheap ones, after every step."""
        for node in _open_nodes(world):
            self._one_leader_per_epoch(node)
            self._watermark_stays(node)

    def compare(self, world: ReplicaWorld) -> None:
        """Those that read the logs."""
        logs = {node.node_id: batches_of(content(node)) for node in _open_nodes(world)}
        _same_below_watermarks(world, logs)
        _in_sync_replicas_have_what_is_committed(world, logs)
        for node in _open_nodes(world):
            if node.hosted.is_led and node.node_id == world.controller.state.leader:
                self._nothing_vanished(node)

    def finish(self, world: ReplicaWorld) -> None:
        """All brokers are up and at rest."""
        self.compare(world)
        logs = [content(node) for node in world.nodes]
        _check(all(log == logs[0] for log in logs), "logs at rest differ")
        self._nothing_vanished(world.leader)
        high_watermark = world.leader.hosted.opened().high_watermark
        end_offset = world.leader.hosted.opened().end_offset
        _check(high_watermark == end_offset, f"{high_watermark} of {end_offset} committed at rest")

    def note_seen(self, records: dict[int, bytes], who: str) -> None:
        """A consumer has read these."""
        for offset, value in records.items():
            known = self.seen.setdefault(offset, value)
            _check(known == value, f"{who}: {offset} was {known!r} and is {value!r}")

    def _one_leader_per_epoch(self, node: ReplicaNode) -> None:
        hosted = node.hosted
        if hosted.is_led:
            epoch = hosted.leader_epoch
            leader = self.leaders.setdefault(epoch, node.node_id)
            _check(leader == node.node_id, f"{leader} and {node.node_id} lead in epoch {epoch}")

    def _watermark_stays(self, node: ReplicaNode) -> None:
        hosted = node.hosted
        if not hosted.is_led or hosted.log is None:
            return
        key = (node.node_id, node.life, hosted.leader_epoch)
        now = hosted.log.high_watermark
        before = self.watermarks.get(key, 0)
        _check(now >= before, f"the watermark of {node.node_id} went from {before} to {now}")
        self.watermarks[key] = now

    def _nothing_vanished(self, leader: ReplicaNode) -> None:
        values = values_of(content(leader))
        for told, offsets in (("acknowledged", self.acknowledged), ("seen", self.seen)):
            for offset, value in offsets.items():
                found = values.get(offset)
                _check(
                    found == value, f"{told} {value!r} at {offset}, {leader.node_id} has {found!r}"
                )


def _open_nodes(world: ReplicaWorld) -> list[ReplicaNode]:
    return [
        node
        for node in world.nodes
        if node.is_up and node.has_hosted and node.hosted.log is not None
    ]


def _same_below_watermarks(world: ReplicaWorld, logs: dict[NodeId, dict[int, bytes]]) -> None:
    """What two brokers both take for committed is the same."""
    nodes = _open_nodes(world)
    for one in nodes:
        for other in nodes:
            if one.node_id < other.node_id:
                limit = min(_watermark(one), _watermark(other))
                _check(
                    _below(logs[one.node_id], limit) == _below(logs[other.node_id], limit),
                    f"{one.node_id} and {other.node_id} differ below {limit}",
                )


def _in_sync_replicas_have_what_is_committed(
    world: ReplicaWorld, logs: dict[NodeId, dict[int, bytes]]
) -> None:
    """As the controller sees it: whom it may make leader next has everything."""
    state = world.controller.state
    nodes = {node.node_id: node for node in _open_nodes(world)}
    leader = nodes.get(state.leader)
    if leader is None or leader.hosted.leader_epoch != state.leader_epoch:
        return
    limit = _watermark(leader)
    for node_id in state.isr:
        # One that is told later that it is not in sync any more, or died, is not judged.
        if node_id in nodes and node_id in world.controller.image.brokers:
            _check(
                _below(logs[node_id], limit) == _below(logs[state.leader], limit),
                f"{node_id} is in sync and lacks what {state.leader} has committed up to {limit}",
            )


def _watermark(node: ReplicaNode) -> int:
    return node.hosted.opened().high_watermark


def _below(batches: dict[int, bytes], limit: int) -> dict[int, bytes]:
    return {offset: batch for offset, batch in batches.items() if offset < limit}


def batches_of(log: bytes) -> dict[int, bytes]:
    """Each batch by its first offset."""
    found, position = {}, 0
    while position < len(log):
        header = read_header(log, position)
        found[header.base_offset] = log[position : position + header.size_bytes]
        position += header.size_bytes
    return found


def values_of(log: bytes) -> dict[int, bytes]:
    """The values of all whole batches, by offset."""
    found = {}
    for batch in batches_of(log).values():
        for record in read_records(batch, read_header(batch)):
            assert record.offset is not None
            assert record.value is not None
            found[record.offset] = record.value
    return found
