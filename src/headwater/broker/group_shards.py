"""How the shards of groups are made, with the broker's settings under their own names.

Loaded with the first shard: a broker without groups does not pay for the code of all of them.
"""

from collections.abc import Callable
from typing import Final

from headwater.cluster.image import ClusterImage
from headwater.coordinator.groups.classic_rebalance import ClassicLimits
from headwater.coordinator.groups.consumer_group_settings import ConsumerGroupSettings
from headwater.coordinator.groups.group_shard import GroupShard, OffsetSettings
from headwater.coordinator.groups.known_groups import GroupMaking
from headwater.model.broker_settings import BrokerSettings
from headwater.model.ports import Dice

_MINUTE_MS: Final = 60_000


def new_group_shard(
    settings: BrokerSettings, dice: Dice, image: Callable[[], ClusterImage]
) -> GroupShard:
    """An empty shard; `image` is the cluster as it is known at any time."""
    making = GroupMaking(
        classic=ClassicLimits(
            min_session_timeout_ms=settings.group_min_session_timeout_ms,
            max_session_timeout_ms=settings.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            max_size=settings.group_max_size,
        ),
        consumer=ConsumerGroupSettings(),
        dice=dice,
        image=image,
    )
    offsets = OffsetSettings(
        metadata_max_bytes=settings.offset_metadata_max_bytes,
        retention_ms=settings.offsets_retention_minutes * _MINUTE_MS,
    )
    return GroupShard(making, offsets)
