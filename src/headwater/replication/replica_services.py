"""What a partition with replicas on several brokers needs of the rest of its broker: a port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headwater.common.ids import NodeId
from headwater.replication.alter_partition_manager import AlterPartitionManager
from headwater.replication.leader_state import LeaderRules

if TYPE_CHECKING:
    from headwater.replication.partition import Partition


class ReplicaServices(Protocol):
    """Filled by `headwater.replication.replica_fetcher_manager`."""

    @property
    def rules(self) -> LeaderRules: ...

    @property
    def alter_partition_manager(self) -> AlterPartitionManager: ...

    def steady_ms(self) -> int: ...

    def follow(self, partition: Partition) -> None:
        """Fetch it from its leader, from now on or in a new epoch. Its log is open."""

    def unfollow(self, partition: Partition) -> None:
        """Stop fetching it, if anybody did."""

    def may_send(self, partition: Partition, follower: NodeId) -> bool:
        """Whether a follower may have more of a partition now, or has used up its quota."""

    def note_sent(self, partition: Partition, size_bytes: int) -> None:
        """So much of it was sent to a follower."""

    def note_in_sync(self, before: int, after: int) -> None:
        """So many replicas were in sync, and so many are."""
