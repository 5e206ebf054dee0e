"""Racks: when they matter to an assignment, and who is near a partition (KIP-881).

A consumer that reads from a replica in its own rack costs no traffic between racks. What a reader
would get wrong: a member that does not say where it is counts as near to everything, so that it
takes what it would take without racks.
"""

from collections.abc import Iterable, Mapping

from headwater.client.assignors.assignor import GroupMember
from headwater.common.ids import TopicPartition

Racks = Mapping[TopicPartition, frozenset[str]]
"""Where the replicas of each partition are, as far as brokers say."""


def racks_matter(
    members: Iterable[GroupMember], partitions: Iterable[TopicPartition], racks: Racks
) -> bool:
    """Not where no member is in a rack with a replica, or where all partitions are in all racks."""
    theirs = {member.rack_id for member in members if member.rack_id}
    places = [racks.get(partition, frozenset()) for partition in partitions]
    everywhere = frozenset(rack for place in places for rack in place)
    return not theirs.isdisjoint(everywhere) and any(place != everywhere for place in places)


def is_near(member: GroupMember, partition: TopicPartition, racks: Racks) -> bool:
    return not member.rack_id or member.rack_id in racks.get(partition, ())
