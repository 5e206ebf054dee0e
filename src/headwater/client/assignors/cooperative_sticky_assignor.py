"""The sticky assignors: balanced assignments with the fewest moves.

If all members subscribe to the same topics, quotas give the result in one pass. Otherwise
partitions are moved one by one from a member with at least two more to one with fewer, until no
move helps.

With racks (KIP-881), balance comes first, rack locality second and stickiness third: a partition
without a replica in its owner's rack moves to a member in a rack of a replica, if one has room.

The cooperative assignor computes the same assignment, but leaves a partition that changes its
owner unassigned: the old owner must revoke it first, and rejoins afterwards.
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
from headwater.client.assignors.racks import Racks, is_near, racks_matter
from headwater.common.ids import TopicPartition


def assign_sticky(
    partition_counts: Mapping[str, int],
    members: Sequence[GroupMember],
    racks: Racks | None = None,
) -> Assignment:
    existing = dict.fromkeys(partitions_to_assign(partition_counts, members))
    kept = {
        member_id: [partition for partition in owned if partition in existing]
        for member_id, owned in previous_owners(members).items()
    }
    order = ranked(members)
    subscriptions = {
        frozenset(topic for topic in member.topics if topic in partition_counts)
        for member in members
    }
    where = racks if racks and racks_matter(members, existing, racks) else None
    if len(subscriptions) <= 1:
        return _by_quota(list(existing), order, kept, where)
    return _by_moves(list(existing), order, kept, where)


def assign_cooperatively(
    partition_counts: Mapping[str, int],
    members: Sequence[GroupMember],
    racks: Racks | None = None,
) -> Assignment:
    owner_of = {
        partition: member_id
        for member_id, owned in previous_owners(members).items()
        for partition in owned
    }
    # A partition that several members claim must be revoked by all of them first.
    claimed = {partition for member in members for partition in member.owned}
    return {
        member_id: [
            partition
            for partition in partitions
            if owner_of.get(partition) == member_id or partition not in claimed
        ]
        for member_id, partitions in assign_sticky(partition_counts, members, racks).items()
    }


def _by_quota(
    partitions: list[TopicPartition],
    order: list[GroupMember],
    kept: Assignment,
    racks: Racks | None,
) -> Assignment:
    """Give all members the same number, and some one more for the remainder."""
    if not order:
        return {}
    least, more_count = divmod(len(partitions), len(order))
    assignment: Assignment = {}
    for member in order:
        owned = kept[member.member_id]
        if racks is not None:
            owned = [each for each in owned if is_near(member, each, racks)]
        keeps_more = len(owned) > least and more_count > 0
        more_count -= keeps_more
        assignment[member.member_id] = owned[: least + keeps_more]
    taken = {partition for owned in assignment.values() for partition in owned}
    free = deque(partition for partition in partitions if partition not in taken)
    if racks is not None:
        free = _give_near(assignment, free, order, kept, racks, least, more_count)
    _fill(assignment, free, least)
    # Members at the lower quota get the remainder, in order.
    for owned in assignment.values():
        if free and len(owned) == least:
            owned.append(free.popleft())
    return {member_id: sorted(owned) for member_id, owned in assignment.items()}


def _give_near(
    assignment: Assignment,
    free: deque[TopicPartition],
    order: list[GroupMember],
    kept: Assignment,
    racks: Racks,
    least: int,
    more_count: int,
) -> deque[TopicPartition]:
    """Assign to members in a replica's rack, then to former owners; return the rest."""

    def give(partition: TopicPartition, takers: list[GroupMember]) -> bool:
        nonlocal more_count
        limit = least + (more_count > 0)
        fitting = [each for each in takers if len(assignment[each.member_id]) < limit]
        if not fitting:
            return False
        owned = min((assignment[each.member_id] for each in fitting), key=len)
        more_count -= len(owned) == least
        owned.append(partition)
        return True

    far: list[TopicPartition] = []
    for partition in free:
        near = [each for each in order if each.rack_id and is_near(each, partition, racks)]
        if not give(partition, near):
            far.append(partition)
    owner_of = {partition: each for each in order for partition in kept[each.member_id]}
    return deque(
        partition
        for partition in far
        if partition not in owner_of or not give(partition, [owner_of[partition]])
    )


def _fill(assignment: Assignment, free: deque[TopicPartition], least: int) -> None:
    """Give one partition per round to every member below the quota."""
    hungry = [owned for owned in assignment.values() if len(owned) < least]
    while hungry:
        for owned in hungry:
            owned.append(free.popleft())
        hungry = [owned for owned in hungry if len(owned) < least]


def _by_moves(
    partitions: list[TopicPartition],
    order: list[GroupMember],
    kept: Assignment,
    racks: Racks | None,
) -> Assignment:
    """Balance members with different subscriptions.

    Keep all partitions, give free ones to the least loaded members, then move single partitions.
    """
    takers: dict[str, list[str]] = {}
    for member in order:
        for topic in member.topics:
            takers.setdefault(topic, []).append(member.member_id)
    owner_of = {partition: member_id for member_id, owned in kept.items() for partition in owned}
    load = {member.member_id: len(kept[member.member_id]) for member in order}
    # Partitions with the fewest candidates first: the others have more choice.
    free = [partition for partition in partitions if partition not in owner_of]
    for partition in sorted(free, key=lambda each: (len(takers[each.topic]), each)):
        member_id = _lightest(takers[partition.topic], load, _near_ids(order, partition, racks))
        owner_of[partition] = member_id
        load[member_id] += 1
    _even_out(owner_of, takers, load)
    assignment: Assignment = {member.member_id: [] for member in order}
    for partition in partitions:
        assignment[owner_of[partition]].append(partition)
    return assignment


def _lightest(takers: list[str], load: dict[str, int], near: frozenset[str]) -> str:
    return min(takers, key=lambda each: (load[each], each not in near))


def _near_ids(
    order: list[GroupMember], partition: TopicPartition, racks: Racks | None
) -> frozenset[str]:
    if racks is None:
        return frozenset()
    return frozenset(each.member_id for each in order if is_near(each, partition, racks))


def _even_out(
    owner_of: dict[TopicPartition, str], takers: dict[str, list[str]], load: dict[str, int]
) -> None:
    """Move partitions to lighter members.

    Each move reduces the sum of squares, so this ends.
    """
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


STICKY = Assignor(
    name="sticky",
    assign=assign_sticky,
    assign_near=assign_sticky,
    user_data=write_sticky_user_data,
)
COOPERATIVE_STICKY = Assignor(
    name="cooperative-sticky",
    assign=assign_cooperatively,
    assign_near=assign_cooperatively,
    protocols=frozenset({RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER}),
    user_data=write_generation,
)
