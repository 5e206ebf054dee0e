"""The round robin assignor: all partitions in order, one per member in turn.

A member that is not subscribed to a topic is skipped; the turn passes to the member after the one
that got the partition.
"""

from collections.abc import Mapping, Sequence

from headwater.client.assignors.assignor import (
    Assignment,
    Assignor,
    GroupMember,
    partitions_to_assign,
    ranked,
)


def assign_round_robin(
    partition_counts: Mapping[str, int], members: Sequence[GroupMember]
) -> Assignment:
    order = ranked(members)
    assignment: Assignment = {member.member_id: [] for member in members}
    turn = 0
    for partition in partitions_to_assign(partition_counts, members):
        while partition.topic not in order[turn].topics:
            turn = (turn + 1) % len(order)
        assignment[order[turn].member_id].append(partition)
        turn = (turn + 1) % len(order)
    return assignment


ROUND_ROBIN = Assignor(name="roundrobin", assign=assign_round_robin)
