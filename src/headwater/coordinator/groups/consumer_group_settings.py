"""The settings of consumer groups, by Kafka's names; a group may have its own values."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from headwater.coordinator.assignors.range_assignor import assign_ranges
from headwater.coordinator.assignors.spec import Assignor
from headwater.coordinator.assignors.uniform import assign_uniformly

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}


class MigrationPolicy(Enum):
    """Which groups may change their protocol while they live (NG-10)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """`group.consumer.*`. Of the assignors, the first is the default."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = tuple(ASSIGNORS)
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
