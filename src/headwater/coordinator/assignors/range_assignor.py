"""Range assignor: each subscriber gets a contiguous range of partitions.

Topics of the same size are split at the same places, so the member with partition 3 of one has
partition 3 of the others, as joins need. For that reason the assignor considers neither the balance
over all topics nor the previous assignment. Static members come first, sorted by instance id, so
that a restart, which changes member ids, moves no partitions.
"""

from collections.abc import Mapping

from headwater.common.ids import TopicId
from headwater.coordinator.assignors.assignor_spec import (
    Assignment,
    MemberSpec,
    PartitionCounts,
    TopicIdPartition,
)


def assign_ranges(members: Mapping[str, MemberSpec], counts: PartitionCounts) -> Assignment:
    given: dict[str, list[TopicIdPartition]] = {member_id: [] for member_id in members}
    for topic_id, subscribers in _subscribers(members).items():
        share, extras = divmod(counts[topic_id], len(subscribers))
        begin = 0
        for place, member_id in enumerate(subscribers):
            end = begin + share + (place < extras)
            given[member_id].extend(
                TopicIdPartition(topic_id, partition) for partition in range(begin, end)
            )
            begin = end
    return {member_id: frozenset(partitions) for member_id, partitions in given.items()}


def _subscribers(members: Mapping[str, MemberSpec]) -> dict[TopicId, list[str]]:
    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return instance_id is None, member_id if instance_id is None else instance_id

    subscribers: dict[TopicId, list[str]] = {}
    for member_id in sorted(members, key=rank):
        for topic_id in members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    return subscribers
