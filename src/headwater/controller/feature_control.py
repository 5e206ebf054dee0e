"""Raising and lowering the features of a cluster: all that is asked for, or nothing of it."""

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.metadata.changes import FeatureFinalized, MetadataChange
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.controller_result import DONE, ApiError, ControllerResult
from headwater.metadata.features import SUPPORTED, level_of
from headwater.protocol.messages.update_features import (
    SAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)

_UNSAFE_DOWNGRADE: Final = 3


def update_features(
    image: ClusterImage, request: UpdateFeaturesRequest
) -> ControllerResult[ApiError]:
    changes: list[MetadataChange] = []
    for update in request.feature_updates:
        reason = _why_not(image, update)
        if reason is not None:
            text = f"{update.feature} cannot go to level {update.max_version_level}: {reason}"
            return ControllerResult((), ApiError(ErrorCode.INVALID_UPDATE_VERSION, text))
        changes.append(FeatureFinalized(update.feature, update.max_version_level))
    return ControllerResult(() if request.validate_only else changes, DONE)


def _why_not(image: ClusterImage, update: FeatureUpdateKey) -> str | None:
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return f"there is no upgrade type {update.upgrade_type}"
    supported, level = SUPPORTED.get(update.feature), update.max_version_level
    if supported is None:
        return "there is no such feature here"
    if not supported.lowest <= level <= supported.highest:
        return f"this broker can do {supported.lowest} to {supported.highest}"
    current, raises = level_of(image, update.feature), update.upgrade_type == UPGRADE
    if level < current and raises:
        return f"it is at level {current}, and an upgrade lowers nothing"
    if level > current and not raises:
        return f"it is at level {current}, and a downgrade raises nothing"
    return None
