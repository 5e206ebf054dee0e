"""Range: topic by topic, each member gets a run of neighbouring partitions.

Topics with equally many partitions are dealt out alike, so that a member has the same numbers of
each and can join them. Racks are not considered.
"""

from collections.abc import Mapping, Sequence

from headwater.client.assignors.assignor import Assignment, Assignor, GroupMember, ranked
from headwater.model.ids import TopicPartition


def assign_ranges(
    partition_counts: Mapping[str, int], members: Sequence[GroupMember]
) -> Assignment:
    """The first members get one more where the number does not divide."""
    order = ranked(members)
    assignment: Assignment = {member.member_id: [] for member in members}
    for topic in sorted({topic for member in members for topic in member.topics}):
        takers = [member.member_id for member in order if topic in member.topics]
        each, extra = divmod(partition_counts.get(topic, 0), len(takers))
        start = 0
        for index, member_id in enumerate(takers):
            stop = start + each + (index < extra)
            assignment[member_id] += [
                TopicPartition(topic, number) for number in range(start, stop)
            ]
            start = stop
    return assignment


RANGE = Assignor(name="range", assign=assign_ranges)
