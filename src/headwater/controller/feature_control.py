"""Decide UpdateFeatures: all updates of a request or none.

In a KRaft cluster every registered node must support the new level; nodes name their levels when
they register. metadata.version is only raised, since records are always written in the newest
version that a level of 4.1 has. kraft.version belongs to the voters.
"""

from typing import Final

from headwater.common.api_error import NO_ERROR, ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.eligible_leader_replicas import changes_after_downgrade
from headwater.metadata.changes import FeatureFinalized, MetadataChange
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    SUPPORTED,
    Levels,
    level_of,
)
from headwater.protocol.messages.update_features import (
    SAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)

_UNSAFE_DOWNGRADE: Final = 3
_METADATA_VERSION: Final = "metadata.version"
_KRAFT_VERSION: Final = "kraft.version"


def update_features(
    image: ClusterImage, request: UpdateFeaturesRequest
) -> ControllerResult[ApiError]:
    changes: list[MetadataChange] = []
    for update in request.feature_updates:
        reason = _check(image, update)
        if reason is not None:
            text = (
                f"cannot set feature {update.feature} to level {update.max_version_level}: {reason}"
            )
            return ControllerResult((), ApiError(ErrorCode.INVALID_UPDATE_VERSION, text))
        changes.append(FeatureFinalized(update.feature, update.max_version_level))
        if update.feature == ELIGIBLE_LEADER_REPLICAS_VERSION and not update.max_version_level:
            changes += changes_after_downgrade(image)
    return ControllerResult(() if request.validate_only else changes, NO_ERROR)


def _check(image: ClusterImage, update: FeatureUpdateKey) -> str | None:
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return f"unknown upgrade type {update.upgrade_type}"
    supported, level = _supported(image, update.feature), update.max_version_level
    if supported is None:
        return "the feature is not supported"
    if not supported.lowest <= level <= supported.highest:
        return f"the cluster supports levels {supported.lowest} to {supported.highest}"
    if update.feature == _METADATA_VERSION and level < level_of(image, update.feature):
        return "a downgrade of this feature is not supported"
    current, raises = level_of(image, update.feature), update.upgrade_type == UPGRADE
    if level < current and raises:
        return f"an upgrade cannot lower the current level {current}"
    if level > current and not raises:
        return f"a downgrade cannot raise the current level {current}"
    return None


def _supported(image: ClusterImage, feature: str) -> Levels | None:
    """Return the levels that all nodes support; None if one does not know the feature."""
    if not image.is_kraft:
        return SUPPORTED.get(feature)
    nodes = [
        *(each.features for each in image.controllers.values()),
        *(each.features for each in image.brokers.values()),
        *(each.features for each in image.fenced_brokers.values()),
    ]
    found = [each for features in nodes for each in features if each.name == feature]
    if feature == _KRAFT_VERSION or not nodes or len(found) < len(nodes):
        return None
    return Levels(max(each.lowest for each in found), min(each.highest for each in found))
