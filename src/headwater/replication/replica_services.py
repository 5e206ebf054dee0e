"""Port: what a replicated partition needs from the rest of its broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headwater.common.ids import NodeId
from headwater.replication.alter_partition_manager import AlterPartitionManager
from headwater.replication.leader_state import LeaderRules

if TYPE_CHECKING:
    from headwater.replication.partition import Partition


class ReplicaServices(Protocol):
    """Implemented by `headwater.replication.replica_fetcher_manager`."""

    @property
    def rules(self) -> LeaderRules: ...

    @property
    def alter_partition_manager(self) -> AlterPartitionManager: ...

    def steady_ms(self) -> int: ...

    def follow(self, partition: Partition) -> None:
        """Fetch the partition from its leader or in a new epoch; its log is open."""

    def unfollow(self, partition: Partition) -> None:
        """Stop fetching the partition, if it was fetched."""

    def may_send(self, partition: Partition, follower: NodeId) -> bool:
        """Return whether the quota allows sending more of the partition to a follower."""

    def record_sent(self, partition: Partition, size_bytes: int) -> None:
        """Count bytes sent to a follower."""

    def record_isr_change(self, before: int, after: int) -> None:
        """Count an ISR shrink or expansion; the arguments are ISR sizes."""
