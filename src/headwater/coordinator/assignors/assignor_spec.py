"""Input and output of an assignor.

Note: `owned` is the member's last target assignment, not what it owns at the moment. Two members
may be about to swap partitions, and an assignor that looked at the current assignment would change
its result with every heartbeat.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headwater.common.ids import TopicId


class TopicIdPartition(NamedTuple):
    """A partition by topic id: a re-created topic is another topic."""

    topic_id: TopicId
    partition: int


Partitions = frozenset[TopicIdPartition]
"""An unordered set; sort it before iterating."""

NO_PARTITIONS: Partitions = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """One member. `topics` are the existing topics of its subscription, sorted."""

    topics: tuple[TopicId, ...]
    owned: Partitions = NO_PARTITIONS
    instance_id: str | None = None


PartitionCounts = Mapping[TopicId, int]
Assignment = dict[str, Partitions]
Assignor = Callable[[Mapping[str, MemberSpec], PartitionCounts], Assignment]
