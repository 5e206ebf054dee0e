"""What an assignor is told and what it answers.

What a member *had* is what it was last meant to have (its target), not what it holds at this
moment: two members may be about to swap, and an assignor that looked at what they hold would
change its mind with every heartbeat.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headwater.common.ids import TopicId


class TopicIdPartition(NamedTuple):
    """One partition of one topic, by id: a topic that is deleted and made anew is another."""

    topic_id: TopicId
    partition: int


Partitions = frozenset[TopicIdPartition]
"""Compare, intersect, subtract; to walk over it, sort it."""

NO_PARTITIONS: Partitions = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """One member. `topics` are those of its subscription that exist, sorted."""

    topics: tuple[TopicId, ...]
    had: Partitions = NO_PARTITIONS
    instance_id: str | None = None


PartitionCounts = Mapping[TopicId, int]
Assignment = dict[str, Partitions]
Assignor = Callable[[Mapping[str, MemberSpec], PartitionCounts], Assignment]
