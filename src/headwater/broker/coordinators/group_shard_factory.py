"""Create group coordinator shards from broker settings.

Imported with the first shard: brokers without groups do not need this code.
"""

from collections.abc import Callable
from typing import Final

from headwater.common.ports import Random
from headwater.common.settings.broker_settings import ASSIGNOR_CLASSES, BrokerSettings
from headwater.coordinator.group.classic.classic_rebalance import ClassicLimits
from headwater.coordinator.group.consumer.consumer_group_settings import (
    ConsumerGroupSettings,
    MigrationPolicy,
)
from headwater.coordinator.group.group_coordinator_shard import (
    GroupCoordinatorShard,
    OffsetSettings,
)
from headwater.coordinator.group.group_counters import GroupCounters
from headwater.coordinator.group.group_metadata_manager import GroupFactory
from headwater.metadata.cluster_image import ClusterImage

_MINUTE_MS: Final = 60_000


def new_group_shard(
    settings: BrokerSettings,
    rng: Random,
    image: Callable[[], ClusterImage],
    counters: GroupCounters | None = None,
) -> GroupCoordinatorShard:
    """Create an empty shard; `image` returns the current metadata."""
    making = GroupFactory(
        classic=ClassicLimits(
            min_session_timeout_ms=settings.group_min_session_timeout_ms,
            max_session_timeout_ms=settings.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            max_size=settings.group_max_size,
        ),
        consumer=_consumer_settings(settings),
        rng=rng,
        image=image,
    )
    offsets = OffsetSettings(
        metadata_max_bytes=settings.offset_metadata_max_bytes,
        retention_ms=settings.offsets_retention_minutes * _MINUTE_MS,
        check_interval_ms=settings.offsets_retention_check_interval_ms,
    )
    return GroupCoordinatorShard(making, offsets, counters)


def _consumer_settings(settings: BrokerSettings) -> ConsumerGroupSettings:
    named = (ASSIGNOR_CLASSES.get(each, each) for each in settings.group_consumer_assignors)
    return ConsumerGroupSettings(
        session_timeout_ms=settings.group_consumer_session_timeout_ms,
        heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        max_size=settings.group_consumer_max_size,
        assignors=tuple(dict.fromkeys(named)),
        migration_policy=MigrationPolicy(settings.group_consumer_migration_policy),
        regex_refresh_interval_ms=settings.group_consumer_regex_refresh_interval_ms,
    )
