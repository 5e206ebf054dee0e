"""The interface of client-side assignors, as Kafka's ConsumerPartitionAssignor.

Note: the order of members matters. All clients sort them in the same way, static members first by
instance id, so that consecutive group leaders compute the same assignment.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from headwater.common.ids import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Partitions by member id. Contains every member."""


class RebalanceProtocol(IntEnum):
    """What members do with their partitions during a rebalance (KIP-429)."""

    EAGER = 0
    """A member revokes all partitions before it rejoins."""
    COOPERATIVE = 1
    """A member revokes only the partitions that it loses, in a second rebalance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member with its subscription."""

    member_id: str
    topics: frozenset[str]
    group_instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    """The generation in which it owned them; -1 if unknown."""
    user_data: bytes | None = None
    rack_id: str | None = None

    @property
    def rank(self) -> tuple[bool, str]:
        """Static members come first."""
        if self.group_instance_id is None:
            return True, self.member_id
        return False, self.group_instance_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignor:
    """An assignment strategy; `assign` gets the partition counts of existing topics."""

    name: str
    assign: Callable[[Mapping[str, int], Sequence[GroupMember]], Assignment]
    assign_near: (
        Callable[
            [Mapping[str, int], Sequence[GroupMember], Mapping[TopicPartition, frozenset[str]]],
            Assignment,
        ]
        | None
    ) = None
    """The same with the racks of replicas, for rack-aware assignors (KIP-881)."""
    protocols: frozenset[RebalanceProtocol] = frozenset({RebalanceProtocol.EAGER})
    user_data: Callable[[Sequence[TopicPartition], int], bytes | None] = lambda _owned, _id: None
    """Extra data in the subscription, from the owned partitions and the generation."""


def ranked(members: Sequence[GroupMember]) -> list[GroupMember]:
    return sorted(members, key=lambda member: member.rank)


def partitions_to_assign(
    partition_counts: Mapping[str, int], members: Sequence[GroupMember]
) -> list[TopicPartition]:
    """All partitions of subscribed topics, sorted."""
    wanted = {topic for member in members for topic in member.topics}
    return [
        TopicPartition(topic, partition)
        for topic in sorted(wanted)
        for partition in range(partition_counts.get(topic, 0))
    ]
