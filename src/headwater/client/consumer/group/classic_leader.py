"""The group leader of a classic group: computes the assignment. Pure.

The coordinator chooses one member as leader when all have joined.

Note: the leader stays responsible after the assignment. It must notice when partition counts
change and trigger a rebalance, because no other member does.
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
    """The members of one generation, as the leader knows them."""

    def __init__(self, members: Sequence[JoinGroupResponseMember], assignor: Assignor) -> None:
        self._members = [_group_member(each) for each in members]
        self._assignor = assignor
        self._assigned_counts: dict[str, int] = {}
        self.topics = frozenset(topic for each in self._members for topic in each.topics)

    def assign(
        self, partition_counts: Mapping[str, int], racks: Racks | None
    ) -> tuple[SyncGroupRequestAssignment, ...]:
        """Assign the partitions of existing topics."""
        counts = {
            topic: partition_counts[topic]
            for topic in sorted(self.topics)
            if topic in partition_counts
        }
        if racks and self._assignor.assign_near is not None:
            assignment = self._assignor.assign_near(counts, self._members, racks)
        else:
            assignment = self._assignor.assign(counts, self._members)
        self._assigned_counts = {topic: partition_counts.get(topic, 0) for topic in self.topics}
        return tuple(
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=write_assignment(
                    ConsumerAssignment(assigned_partitions=named_partitions(partitions))
                ),
            )
            for member_id, partitions in sorted(assignment.items())
        )

    def is_outdated(self, partition_counts: Mapping[str, int]) -> bool:
        """Whether a partition count has changed since the assignment."""
        assigned = self._assigned_counts
        return any(partition_counts.get(topic, 0) != count for topic, count in assigned.items())


def _group_member(member: JoinGroupResponseMember) -> GroupMember:
    try:
        subscription = read_subscription(member.metadata)
    except ProtocolError:
        # A malformed subscription of one member must not stop the rebalance.
        subscription = Subscription()
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=frozenset(subscription.topics),
        owned=tuple(partitions_of(subscription.owned_partitions)),
        generation_id=subscription.generation_id,
        user_data=subscription.user_data,
        rack_id=subscription.rack_id,
    )
