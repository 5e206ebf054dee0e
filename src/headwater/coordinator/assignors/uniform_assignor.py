"""Uniform assignor: equal numbers of partitions, keeping previous assignments.

If all members subscribe to the same topics, the optimum is known: each gets the same number or one
more, and a member loses partitions only if it had more than its share. Members with different
subscriptions are handled by `uniform_heterogeneous_assignor`.
"""

from collections import deque
from collections.abc import Mapping

from headwater.common.ids import TopicId
from headwater.coordinator.assignors.assignor_spec import (
    Assignment,
    MemberSpec,
    PartitionCounts,
    TopicIdPartition,
)
from headwater.coordinator.assignors.uniform_heterogeneous_assignor import assign_heterogeneous


def assign_uniformly(members: Mapping[str, MemberSpec], counts: PartitionCounts) -> Assignment:
    if not members:
        return {}
    topics = next(iter(members.values())).topics
    if all(member.topics == topics for member in members.values()):
        return _assign_even(members, topics, counts)
    return assign_heterogeneous(members, counts)


def _assign_even(
    members: Mapping[str, MemberSpec], topics: tuple[TopicId, ...], counts: PartitionCounts
) -> Assignment:
    # Ordered by topic, so that each topic is spread over many members.
    unowned = dict.fromkeys(
        TopicIdPartition(topic_id, partition)
        for topic_id in topics
        for partition in range(counts[topic_id])
    )
    share, extras = divmod(len(unowned), len(members))
    kept: dict[str, list[TopicIdPartition]] = {}
    quotas: dict[str, int] = {}
    for member_id in sorted(members):
        # A member that loses some keeps the low partitions of all topics, not all partitions of the
        # first topics.
        had = sorted(members[member_id].owned, key=_partition_first)
        still_there = [each for each in had if each in unowned]
        # Members that already have the larger share get it first, since they lose none then.
        larger = len(still_there) > share and extras > 0
        extras -= larger
        quotas[member_id] = share + larger
        kept[member_id] = still_there[: quotas[member_id]]
        for each in kept[member_id]:
            del unowned[each]
    for member_id in kept:
        if extras > 0 and quotas[member_id] == share:
            quotas[member_id] += 1
            extras -= 1
    _distribute(list(unowned), kept, quotas)
    return {member_id: frozenset(partitions) for member_id, partitions in kept.items()}


def _partition_first(each: TopicIdPartition) -> tuple[int, TopicId]:
    return each.partition, each.topic_id


def _distribute(
    partitions: list[TopicIdPartition],
    assigned: dict[str, list[TopicIdPartition]],
    quotas: dict[str, int],
) -> None:
    waiting = deque(
        member_id for member_id, owned in assigned.items() if len(owned) < quotas[member_id]
    )
    for partition in partitions:
        member_id = waiting.popleft()
        assigned[member_id].append(partition)
        if len(assigned[member_id]) < quotas[member_id]:
            waiting.append(member_id)
