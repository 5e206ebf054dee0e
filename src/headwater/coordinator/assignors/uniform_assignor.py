"""`uniform_assignor`: everybody gets as many partitions as everybody else, and keeps what it had.

When all members want the same topics the best answer is known in advance: each gets the same
number or one more, and nobody gives up a partition unless it had more than its share. Members with
different wishes are the harder case, in `uniform_heterogeneous_assignor`.
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
    # Topic by topic, so that dealing them out spreads each topic over many members.
    unowned = dict.fromkeys(
        TopicIdPartition(topic_id, partition)
        for topic_id in topics
        for partition in range(counts[topic_id])
    )
    share, extras = divmod(len(unowned), len(members))
    kept: dict[str, list[TopicIdPartition]] = {}
    rooms: dict[str, int] = {}
    for member_id in sorted(members):
        # Whoever gives some up keeps the low numbers of all its topics, not all of its low topics.
        had = sorted(members[member_id].had, key=_partition_first)
        still_there = [each for each in had if each in unowned]
        # The larger shares go first to those who have that many, since they need not give up any.
        larger = len(still_there) > share and extras > 0
        extras -= larger
        rooms[member_id] = share + larger
        kept[member_id] = still_there[: rooms[member_id]]
        for each in kept[member_id]:
            del unowned[each]
    for member_id in kept:
        if extras > 0 and rooms[member_id] == share:
            rooms[member_id] += 1
            extras -= 1
    _deal(list(unowned), kept, rooms)
    return {member_id: frozenset(partitions) for member_id, partitions in kept.items()}


def _partition_first(each: TopicIdPartition) -> tuple[int, TopicId]:
    return each.partition, each.topic_id


def _deal(
    cards: list[TopicIdPartition], hands: dict[str, list[TopicIdPartition]], rooms: dict[str, int]
) -> None:
    waiting = deque(member_id for member_id, hand in hands.items() if len(hand) < rooms[member_id])
    for card in cards:
        member_id = waiting.popleft()
        hands[member_id].append(card)
        if len(hands[member_id]) < rooms[member_id]:
            waiting.append(member_id)
