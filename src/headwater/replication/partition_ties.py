"""What a partition with replicas on several brokers needs of the rest of its broker: a port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headwater.model.ids import NodeId
from headwater.replication.leading import LeaderRules
from headwater.replication.petitions import Petitions

if TYPE_CHECKING:
    from headwater.replication.hosted_partition import HostedPartition


class PartitionTies(Protocol):
    """Filled by `headwater.replication.replicas`."""

    @property
    def rules(self) -> LeaderRules: ...

    @property
    def petitions(self) -> Petitions: ...

    def steady_ms(self) -> int: ...

    def follow(self, partition: HostedPartition) -> None:
        """Fetch it from its leader, from now on or in a new epoch. Its log is open."""

    def unfollow(self, partition: HostedPartition) -> None:
        """Stop fetching it, if anybody did."""

    def may_send(self, partition: HostedPartition, follower: NodeId) -> bool:
        """Whether a follower may have more of a partition now, or has used up its quota."""

    def note_sent(self, partition: HostedPartition, size_bytes: int) -> None:
        """So much of it was sent to a follower."""

    def note_in_sync(self, before: int, after: int) -> None:
        """So many replicas were in sync, and so many are."""
