"""Sticky: as even as can be, and among the even ways the one that moves the least.

Where all members want the same topics, quotas settle it in one pass. Else partitions are moved, one
by one, from who has two more to who has less, until no move helps.

The cooperative assignor deals out in the same way, but a partition that changes hands is given to
nobody at first: its owner must let go of it, and joins again when it has.
"""

import heapq
from collections import deque
from collections.abc import Mapping, Sequence

from headwater.client.assignors.assignor import (
    Assignment,
    Assignor,
    GroupMember,
    RebalanceProtocol,
    partitions_to_assign,
    ranked,
)
from headwater.client.assignors.previous_owners import (
    previous_owners,
    write_generation,
    write_sticky_user_data,
)
from headwater.model.ids import TopicPartition


def assign_sticky(
    partition_counts: Mapping[str, int], members: Sequence[GroupMember]
) -> Assignment:
    existing = dict.fromkeys(partitions_to_assign(partition_counts, members))
    kept = {
        member_id: [partition for partition in owned if partition in existing]
        for member_id, owned in previous_owners(members).items()
    }
    order = ranked(members)
    wishes = {
        frozenset(topic for topic in member.topics if topic in partition_counts)
        for member in members
    }
    if len(wishes) <= 1:
        return _by_quota(list(existing), order, kept)
    return _by_moves(list(existing), order, kept)


def assign_cooperatively(
    partition_counts: Mapping[str, int], members: Sequence[GroupMember]
) -> Assignment:
    owner_of = {
        partition: member_id
        for member_id, owned in previous_owners(members).items()
        for partition in owned
    }
    # What several claim must be let go of by all of them, before anybody gets it.
    claimed = {partition for member in members for partition in member.owned}
    return {
        member_id: [
            partition
            for partition in partitions
            if owner_of.get(partition) == member_id or partition not in claimed
        ]
        for member_id, partitions in assign_sticky(partition_counts, members).items()
    }


def _by_quota(
    partitions: list[TopicPartition], order: list[GroupMember], kept: Assignment
) -> Assignment:
    """Everybody gets the same number, or one more for as many as the rest allows."""
    if not order:
        return {}
    least, more_count = divmod(len(partitions), len(order))
    assignment: Assignment = {}
    for member in order:
        owned = kept[member.member_id]
        keeps_more = len(owned) > least and more_count > 0
        more_count -= keeps_more
        assignment[member.member_id] = owned[: least + keeps_more]
    taken = {partition for owned in assignment.values() for partition in owned}
    free = deque(partition for partition in partitions if partition not in taken)
    _fill(assignment, free, least)
    # Who is still at the lower quota may get one of the rest, in order.
    for owned in assignment.values():
        if free and len(owned) == least:
            owned.append(free.popleft())
    return {member_id: sorted(owned) for member_id, owned in assignment.items()}


def _fill(assignment: Assignment, free: deque[TopicPartition], least: int) -> None:
    """Round after round, a partition for everybody who has less than the quota."""
    hungry = [owned for owned in assignment.values() if len(owned) < least]
    while hungry:
        for owned in hungry:
            owned.append(free.popleft())
        hungry = [owned for owned in hungry if len(owned) < least]


def _by_moves(
    partitions: list[TopicPartition], order: list[GroupMember], kept: Assignment
) -> Assignment:
    """Uneven wishes: keep all, give what is free to who has least, then even out."""
    takers: dict[str, list[str]] = {}
    for member in order:
        for topic in member.topics:
            takers.setdefault(topic, []).append(member.member_id)
    owner_of = {partition: member_id for member_id, owned in kept.items() for partition in owned}
    load = {member.member_id: len(kept[member.member_id]) for member in order}
    # Those with the fewest takers first: the others can still go elsewhere.
    free = [partition for partition in partitions if partition not in owner_of]
    for partition in sorted(free, key=lambda each: (len(takers[each.topic]), each)):
        member_id = min(takers[partition.topic], key=load.__getitem__)
        owner_of[partition] = member_id
        load[member_id] += 1
    _even_out(owner_of, takers, load)
    assignment: Assignment = {member.member_id: [] for member in order}
    for partition in partitions:
        assignment[owner_of[partition]].append(partition)
    return assignment


def _even_out(
    owner_of: dict[TopicPartition, str], takers: dict[str, list[str]], load: dict[str, int]
) -> None:
    """Each move makes the sum of the squared loads smaller, so this ends."""
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in sorted(owner_of):
        by_topic.setdefault(partition.topic, []).append(partition)
    has_moved = True
    while has_moved:
        has_moved = False
        for topic, partitions in by_topic.items():
            has_moved |= _even_out_topic(partitions, takers[topic], owner_of, load)


def _even_out_topic(
    partitions: list[TopicPartition],
    takers: list[str],
    owner_of: dict[TopicPartition, str],
    load: dict[str, int],
) -> bool:
    lightest = [(load[member_id], rank, member_id) for rank, member_id in enumerate(takers)]
    heapq.heapify(lightest)
    owned: dict[str, list[TopicPartition]] = {}
    for partition in reversed(partitions):
        owned.setdefault(owner_of[partition], []).append(partition)
    has_moved = False
    for giver in sorted(owned, key=lambda member_id: (-load[member_id], member_id)):
        while owned[giver]:
            least, rank, taker = lightest[0]
            if least != load[taker]:
                heapq.heapreplace(lightest, (load[taker], rank, taker))
                continue
            if load[giver] < least + 2:
                break
            owner_of[owned[giver].pop()] = taker
            load[giver] -= 1
            load[taker] += 1
            has_moved = True
            heapq.heapreplace(lightest, (load[taker], rank, taker))
    return has_moved


STICKY = Assignor(name="sticky", assign=assign_sticky, user_data=write_sticky_user_data)
COOPERATIVE_STICKY = Assignor(
    name="cooperative-sticky",
    assign=assign_cooperatively,
    protocols=frozenset({RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER}),
    user_data=write_generation,
)
