"""Rack awareness of assignors: do racks matter, which members are near (KIP-881).

A consumer that fetches from a replica in its rack causes no traffic between racks.

Note: a member without a rack counts as near to all partitions, so that it is treated as without
racks.
"""

from collections.abc import Iterable, Mapping

from headwater.client.assignors.assignor import GroupMember
from headwater.common.ids import TopicPartition

Racks = Mapping[TopicPartition, frozenset[str]]
"""The racks of each partition's replicas, as far as brokers have a rack."""


def racks_matter(
    members: Iterable[GroupMember], partitions: Iterable[TopicPartition], racks: Racks
) -> bool:
    """Whether racks can matter for this assignment.

    They cannot if no member shares a rack with a replica, or if all partitions are in all racks.
    """
    theirs = {member.rack_id for member in members if member.rack_id}
    places = [racks.get(partition, frozenset()) for partition in partitions]
    everywhere = frozenset(rack for place in places for rack in place)
    return not theirs.isdisjoint(everywhere) and any(place != everywhere for place in places)


def is_near(member: GroupMember, partition: TopicPartition, racks: Racks) -> bool:
    return not member.rack_id or member.rack_id in racks.get(partition, ())
