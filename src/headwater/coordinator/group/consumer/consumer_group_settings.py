"""Settings of consumer groups; a group may override some."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Self

from headwater.common.settings.group_settings import GROUP_SETTINGS, GroupSettings
from headwater.coordinator.assignors.assignor_spec import Assignor
from headwater.coordinator.assignors.range_assignor import assign_ranges
from headwater.coordinator.assignors.uniform_assignor import assign_uniformly

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}


class MigrationPolicy(Enum):
    """Which groups may change their protocol while they have members (NG-10)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """`group.consumer.*`. The first assignor is the default."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = tuple(ASSIGNORS)
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000

    def of_group(self, own: Mapping[str, str]) -> Self:
        """Apply a group's own configs.

        Unknown configs are ignored: a later version may have set them before a downgrade.
        """
        known = {name: text for name, text in own.items() if name in GROUP_SETTINGS}
        if not known:
            return self
        broker = GroupSettings(
            consumer_heartbeat_interval_ms=self.heartbeat_interval_ms,
            consumer_session_timeout_ms=self.session_timeout_ms,
        )
        settings = broker.with_overrides(known)
        return replace(
            self,
            heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
            session_timeout_ms=settings.consumer_session_timeout_ms,
        )
