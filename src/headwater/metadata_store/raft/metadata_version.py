"""Release versions of Kafka and the feature levels of their new clusters.

`kafka-storage version-mapping` of Kafka 4.1 prints the same levels.
"""

from collections.abc import Mapping
from typing import Final

from headwater.common.exceptions import InvalidSetting
from headwater.metadata.cluster_image import SupportedFeature

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"

_RELEASES: Final = (
    "3.3-IV3",
    "3.4-IV0",
    "3.5-IV0",
    "3.5-IV1",
    "3.5-IV2",
    "3.6-IV0",
    "3.6-IV1",
    "3.6-IV2",
    "3.7-IV0",
    "3.7-IV1",
    "3.7-IV2",
    "3.7-IV3",
    "3.7-IV4",
    "3.8-IV0",
    "3.9-IV0",
    "4.0-IV0",
    "4.0-IV1",
    "4.0-IV2",
    "4.0-IV3",
    "4.1-IV0",
    "4.1-IV1",
)
OLDEST_LEVEL: Final = 7
LATEST_RELEASE: Final = _RELEASES[-1]

# Level of each feature, and the metadata.version from which on a new cluster has it.
_DEFAULT_LEVELS: Final = {
    "eligible.leader.replicas.version": ((26, 1),),
    "group.version": ((22, 1),),
    "transaction.version": ((24, 2),),
    "share.version": (),
    "streams.version": (),
}
_HIGHEST_LEVELS: Final = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "transaction.version": 2,
    "share.version": 1,
    "streams.version": 1,
    KRAFT_VERSION: 1,
}

# What a controller supports: the features of `_DEFAULT_LEVELS` that a new cluster can have.
SUPPORTED_FEATURES: Final = (
    SupportedFeature(METADATA_VERSION, OLDEST_LEVEL, OLDEST_LEVEL + len(_RELEASES) - 1),
    SupportedFeature(KRAFT_VERSION, 0, _HIGHEST_LEVELS[KRAFT_VERSION]),
    *(
        SupportedFeature(name, 0, _HIGHEST_LEVELS[name])
        for name, steps in _DEFAULT_LEVELS.items()
        if steps
    ),
)


def level_of_release(release: str) -> int:
    """The metadata.version of a release such as 4.1 or 4.1-IV0."""
    matching = [
        index
        for index, name in enumerate(_RELEASES)
        if name == release or name.startswith(f"{release}-IV")
    ]
    if not matching:
        raise InvalidSetting(
            f"unknown metadata.version {release!r}; supported are {_RELEASES[0]} to "
            f"{LATEST_RELEASE}"
        )
    return OLDEST_LEVEL + matching[-1]


def release_of_level(level: int) -> str:
    return _RELEASES[level - OLDEST_LEVEL]


def feature_levels(release: str | None, overrides: Mapping[str, int]) -> dict[str, int]:
    """Return a new cluster's levels above 0, metadata.version first.

    `kraft.version` is no part of it: the voters decide about that.
    """
    if release is not None and METADATA_VERSION in overrides:
        raise InvalidSetting("give metadata.version or a release version, not both")
    level = overrides.get(METADATA_VERSION, level_of_release(release or LATEST_RELEASE))
    if not OLDEST_LEVEL <= level < OLDEST_LEVEL + len(_RELEASES):
        raise InvalidSetting(
            f"no metadata.version with feature level {level}; valid are {OLDEST_LEVEL} to "
            f"{OLDEST_LEVEL + len(_RELEASES) - 1}"
        )
    for name, value in overrides.items():
        highest = _HIGHEST_LEVELS.get(name)
        if name == METADATA_VERSION:
            continue
        if highest is None:
            raise InvalidSetting(f"unsupported feature: {name}")
        if not 0 <= value <= highest:
            raise InvalidSetting(f"no feature {name} with level {value}; the highest is {highest}")
    levels = {METADATA_VERSION: level}
    for name, steps in _DEFAULT_LEVELS.items():
        default = max((each for since, each in steps if level >= since), default=0)
        value = overrides.get(name, default)
        if value > 0:
            levels[name] = value
    return levels
