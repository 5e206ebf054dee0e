"""What an assignor is: who is in the group goes in, who gets what comes out.

What a reader would get wrong: the order of members matters. All clients sort them in the same way,
static members first by their instance id, so that two leaders in a row deal out alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from headwater.common.ids import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""What each member gets, by its member id. Every member is in it."""


class RebalanceProtocol(IntEnum):
    """What members do with what they own while the group rebalances (KIP-429)."""

    EAGER = 0
    """All is given up before a member joins again."""
    COOPERATIVE = 1
    """Only what is lost is given up, in a second rebalance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member as its subscription describes it."""

    member_id: str
    topics: frozenset[str]
    group_instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    """The generation in which it owned them; -1 when it does not say."""
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
    """One way to deal out. `assign` gets the partition counts of the topics that exist."""

    name: str
    assign: Callable[[Mapping[str, int], Sequence[GroupMember]], Assignment]
    assign_near: (
        Callable[
            [Mapping[str, int], Sequence[GroupMember], Mapping[TopicPartition, frozenset[str]]],
            Assignment,
        ]
        | None
    ) = None
    """The same with the racks of each partition's replicas, where the assignor cares (KIP-881)."""
    protocols: frozenset[RebalanceProtocol] = frozenset({RebalanceProtocol.EAGER})
    user_data: Callable[[Sequence[TopicPartition], int], bytes | None] = lambda _owned, _id: None
    """What a member says beyond its subscription, of what it owns and in which generation."""


def ranked(members: Sequence[GroupMember]) -> list[GroupMember]:
    return sorted(members, key=lambda member: member.rank)


def partitions_to_assign(
    partition_counts: Mapping[str, int], members: Sequence[GroupMember]
) -> list[TopicPartition]:
    """All partitions that somebody wants, in order."""
    wanted = {topic for member in members for topic in member.topics}
    return [
        TopicPartition(topic, partition)
        for topic in sorted(wanted)
        for partition in range(partition_counts.get(topic, 0))
    ]
