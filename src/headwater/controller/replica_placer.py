"""Assign replicas of new partitions to brokers.

Leaders go round all brokers, so their counts differ by at most one. Followers start at a position
that shifts with every round, so that the partitions of one leader are not all followed by the same
broker. Replicas of a partition use racks without a replica first; brokers without a rack share one.
"""

from collections.abc import Iterable, Mapping, Sequence

from headwater.common.ids import NodeId
from headwater.common.ports import Random
from headwater.metadata.cluster_image import BrokerRegistration


def place(
    brokers: Mapping[NodeId, BrokerRegistration],
    *,
    partition_count: int,
    replication_factor: int,
    rng: Random,
) -> list[tuple[NodeId, ...]]:
    """Return the replicas of each partition, the preferred leader first."""
    assert 1 <= replication_factor <= len(brokers)
    ring = _ring(brokers.values())
    if len(ring) == 1:
        return [(ring[0].node_id,)] * partition_count
    start, shift = rng.below(len(ring)), rng.below(len(ring) - 1)
    return [
        _replicas(ring, start + number, shift + number // len(ring), replication_factor)
        for number in range(partition_count)
    ]


def assignment_error(
    replicas: Sequence[int], brokers: Mapping[NodeId, BrokerRegistration], replication_factor: int
) -> str | None:
    """Return what is wrong with an assignment that a client chose, or None (TO-2)."""
    if not replicas:
        return "the assignment of a partition is empty"
    if len(set(replicas)) < len(replicas):
        return f"the assignment {list(replicas)} contains a broker twice"
    unknown = [node_id for node_id in replicas if NodeId(node_id) not in brokers]
    if unknown:
        return f"the assignment contains unknown brokers: {unknown}"
    if len(replicas) != replication_factor:
        return (
            f"the assignment {list(replicas)} has {len(replicas)} replicas, "
            f"other partitions have {replication_factor}"
        )
    return None


def _ring(brokers: Iterable[BrokerRegistration]) -> list[BrokerRegistration]:
    """Return all brokers with those of one rack as far apart as possible."""
    racks: dict[str, list[BrokerRegistration]] = {}
    for broker in sorted(brokers, key=lambda each: (each.rack or "", each.node_id)):
        racks.setdefault(broker.rack or "", []).append(broker)
    longest = max(map(len, racks.values()))
    return [rack[turn] for turn in range(longest) for rack in racks.values() if turn < len(rack)]


def _replicas(
    ring: list[BrokerRegistration], turn: int, shift: int, wanted: int
) -> tuple[NodeId, ...]:
    count = len(ring)
    leader = ring[turn % count]
    waiting = [ring[(turn + 1 + (shift + step) % (count - 1)) % count] for step in range(count - 1)]
    chosen = [leader]
    racks = {leader.rack}
    while len(chosen) < wanted:
        broker = next((each for each in waiting if each.rack not in racks), None)
        if broker is None:
            # Every rack with remaining brokers has a replica: start another round of racks.
            racks.clear()
            continue
        waiting.remove(broker)
        chosen.append(broker)
        racks.add(broker.rack)
    return tuple(broker.node_id for broker in chosen)
