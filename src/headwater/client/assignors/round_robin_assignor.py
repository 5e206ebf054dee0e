"""Round robin: all partitions of all topics in a row, dealt out like cards.

Who does not want a topic is passed over, and the next card still goes to the member after the one
that took it.
"""

from collections.abc import Mapping, Sequence

from headwater.client.assignors.assignor import (
    Assignment,
    Assignor,
    GroupMember,
    partitions_to_assign,
    ranked,
)


def deal_round(partition_counts: Mapping[str, int], members: Sequence[GroupMember]) -> Assignment:
    order = ranked(members)
    assignment: Assignment = {member.member_id: [] for member in members}
    turn = 0
    for partition in partitions_to_assign(partition_counts, members):
        while partition.topic not in order[turn].topics:
            turn = (turn + 1) % len(order)
        assignment[order[turn].member_id].append(partition)
        turn = (turn + 1) % len(order)
    return assignment


ROUND_ROBIN = Assignor(name="roundrobin", assign=deal_round)
