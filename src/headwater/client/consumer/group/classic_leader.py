"""The leader of a classic group: who its members are, and who of them gets what. Pure.

Every member is a leader in waiting; the coordinator names one of them when all have joined. What a
reader would get wrong: a leader goes on leading after it has assigned. It must notice when what it
assigned has grown or shrunk, for nobody else looks.
"""

from collections.abc import Mapping, Sequence

from headwater.client.assignors import Assignor, GroupMember
from headwater.client.assignors.racks import Racks
from headwater.common.exceptions import ProtocolError
from headwater.protocol.consumer_protocol import (
    ConsumerAssignment,
    Subscription,
    named_partitions,
    partitions_of,
    read_subscription,
    write_assignment,
)
from headwater.protocol.messages.join_group import JoinGroupResponseMember
from headwater.protocol.messages.sync_group import SyncGroupRequestAssignment


class ClassicLeader:
    """What a leader knows of one generation."""

    def __init__(self, members: Sequence[JoinGroupResponseMember], assignor: Assignor) -> None:
        self._members = [_group_member(each) for each in members]
        self._assignor = assignor
        self._assigned_counts: dict[str, int] = {}
        self.topics = frozenset(topic for each in self._members for topic in each.topics)

    def assign(
        self, partition_counts: Mapping[str, int], racks: Racks | None
    ) -> tuple[SyncGroupRequestAssignment, ...]:
        """Deal out the partitions of those of its topics that exist."""
        counts = {
            topic: partition_counts[topic]
            for topic in sorted(self.topics)
            if topic in partition_counts
        }
        if racks and self._assignor.assign_near is not None:
            dealt = self._assignor.assign_near(counts, self._members, racks)
        else:
            dealt = self._assignor.assign(counts, self._members)
        self._assigned_counts = {topic: partition_counts.get(topic, 0) for topic in self.topics}
        return tuple(
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=write_assignment(
                    ConsumerAssignment(assigned_partitions=named_partitions(partitions))
                ),
            )
            for member_id, partitions in sorted(dealt.items())
        )

    def is_outdated(self, partition_counts: Mapping[str, int]) -> bool:
        """Whether what was assigned has grown since, or shrunk."""
        assigned = self._assigned_counts
        return any(partition_counts.get(topic, 0) != count for topic, count in assigned.items())


def _group_member(member: JoinGroupResponseMember) -> GroupMember:
    try:
        said = read_subscription(member.metadata)
    except ProtocolError:
        # Nobody can tell what it wants; the others must not suffer.
        said = Subscription()
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=frozenset(said.topics),
        owned=tuple(partitions_of(said.owned_partitions)),
        generation_id=said.generation_id,
        user_data=said.user_data,
        rack_id=said.rack_id,
    )
