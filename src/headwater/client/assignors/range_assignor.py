"""The range assignor: for each topic, every member gets consecutive partitions.

Topics with the same number of partitions and the same subscribers are co-partitioned: a member
gets the same partition numbers of all of them. With racks, a member first gets partitions with a
replica in its rack, up to its quota; of co-partitioned topics only numbers for which this holds in
all topics. Same algorithm and order as Kafka since 3.5 (KIP-881).
"""

from collections.abc import Callable, Mapping, Sequence

from headwater.client.assignors.assignor import Assignment, Assignor, GroupMember, ranked
from headwater.client.assignors.racks import Racks, is_near, racks_matter
from headwater.common.ids import TopicPartition


class _Topic:
    """A topic during the assignment: its free partitions and the members' quotas."""

    def __init__(self, name: str, count: int, takers: list[GroupMember], racks: Racks) -> None:
        self.name = name
        self.count = count
        self.takers = takers
        self.free = {TopicPartition(name, number): None for number in range(count)}
        self.racks_matter = racks_matter(takers, self.free, racks)
        self._given = {member.member_id: 0 for member in takers}
        self._each, self._extra = divmod(count, len(takers))

    def room(self, member: GroupMember) -> int:
        """Partitions that the member may still get; the first ones get the remainder."""
        return max(self._each + (self._extra > 0) - self._given[member.member_id], 0)

    def give(self, member: GroupMember, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            del self.free[partition]
        self._given[member.member_id] += len(partitions)
        if self._given[member.member_id] > self._each:
            self._extra -= 1


def assign_ranges(
    partition_counts: Mapping[str, int],
    members: Sequence[GroupMember],
    racks: Racks | None = None,
) -> Assignment:
    """Assign ranges; the first members get one more if the number does not divide."""
    where = racks or {}
    order = ranked(members)
    assignment: Assignment = {member.member_id: [] for member in members}
    topics = []
    for name in sorted({topic for member in members for topic in member.topics}):
        takers = [member for member in order if name in member.topics]
        if partition_counts.get(name, 0):
            topics.append(_Topic(name, partition_counts[name], takers, where))
    if any(topic.racks_matter for topic in topics):
        _assign_near(topics, where, assignment)
    for topic in topics:
        _assign_range(topic, lambda _member, _partition: True, assignment)
    return {member_id: sorted(partitions) for member_id, partitions in assignment.items()}


def _assign_range(
    topic: _Topic,
    may_have: Callable[[GroupMember, TopicPartition], bool],
    assignment: Assignment,
) -> None:
    for member in topic.takers:
        fitting = [partition for partition in topic.free if may_have(member, partition)]
        run = fitting[: topic.room(member)]
        if run:
            topic.give(member, run)
            assignment[member.member_id] += run


def _assign_near(topics: list[_Topic], racks: Racks, assignment: Assignment) -> None:
    alike: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for topic in topics:
        takers = tuple(member.member_id for member in topic.takers)
        alike.setdefault((takers, topic.count), []).append(topic)
    for group in alike.values():
        if len(group) > 1:
            _assign_alike_near(group, racks, assignment)
        elif group[0].racks_matter:
            _assign_range(
                group[0],
                lambda member, partition: is_near(member, partition, racks),
                assignment,
            )


def _assign_alike_near(topics: list[_Topic], racks: Racks, assignment: Assignment) -> None:
    """Give a partition number of all topics to the first member near to all of them."""
    takers = topics[0].takers
    for number in range(topics[0].count):
        for member in takers:
            if all(
                topic.room(member) and is_near(member, TopicPartition(topic.name, number), racks)
                for topic in topics
            ):
                for topic in topics:
                    partition = TopicPartition(topic.name, number)
                    topic.give(member, [partition])
                    assignment[member.member_id].append(partition)
                break


RANGE = Assignor(name="range", assign=assign_ranges, assign_near=assign_ranges)
