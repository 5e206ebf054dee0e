"""Features that a KRaft broker registers with."""

from collections.abc import Mapping
from typing import Final

from headwater.common.exceptions import InvalidSetting
from headwater.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION, SUPPORTED, Levels
from headwater.metadata_store.raft.metadata_version import (
    KRAFT_VERSION,
    LATEST_RELEASE,
    METADATA_VERSION,
    OLDEST_LEVEL,
    level_of_release,
)
from headwater.raft.raft_core import MAX_KRAFT_VERSION

KRAFT_FEATURES: Final[Mapping[str, Levels]] = {
    METADATA_VERSION: Levels(OLDEST_LEVEL, level_of_release(LATEST_RELEASE)),
    KRAFT_VERSION: Levels(0, MAX_KRAFT_VERSION),
    # The controller keeps these replicas; a broker proves clean shutdowns.
    ELIGIBLE_LEADER_REPLICAS_VERSION: Levels(0, 1),
    **SUPPORTED,
}


def check_finalized_features(finalized: Mapping[str, int]) -> None:
    """Raise `InvalidSetting` for a feature level that this broker does not support."""
    for name, level in finalized.items():
        supported = KRAFT_FEATURES.get(name, Levels(0, 0))
        if not supported.lowest <= level <= supported.highest:
            raise InvalidSetting(
                f"the cluster has {name} at level {level}, and this broker supports "
                f"{supported.lowest} to {supported.highest}; lower it with kafka-features.sh "
                f"downgrade --feature {name}={supported.highest}"
            )
