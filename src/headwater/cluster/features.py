"""Features: what all brokers of a cluster have agreed to do, by levels (KIP-584).

A level is finalized for the whole cluster, and clients choose their protocol by it: with
`transaction.version` 2 a Java producer speaks the second version of transactions. What a reader
would get wrong: a new cluster begins with the highest levels, but one that exists keeps its own
until somebody raises them, as in Kafka. A feature that is not finalized is at level 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.cluster.decision import DONE, Decision, Refusal
from headwater.cluster.facts import Fact, FeatureFinalized
from headwater.cluster.image import ClusterImage
from headwater.model.errors import ErrorCode
from headwater.wire.messages.update_features import (
    SAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)

GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"

_UNSAFE_DOWNGRADE: Final = 3


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of a feature that this broker can do."""

    lowest: int
    highest: int


SUPPORTED: Final[Mapping[str, Levels]] = {
    GROUP_VERSION: Levels(0, 1),
    TRANSACTION_VERSION: Levels(0, 2),
}


def level_of(image: ClusterImage, feature: str) -> int:
    """The level that is finalized."""
    return image.features.get(feature, 0)


def of_new_cluster() -> list[Fact]:
    """What a cluster begins with."""
    return [FeatureFinalized(name, levels.highest) for name, levels in SUPPORTED.items()]


def update_features(image: ClusterImage, request: UpdateFeaturesRequest) -> Decision[Refusal]:
    """Raise or lower features, all of them or none."""
    facts: list[Fact] = []
    for update in request.feature_updates:
        reason = _why_not(image, update)
        if reason is not None:
            text = f"{update.feature} cannot go to level {update.max_version_level}: {reason}"
            return Decision((), Refusal(ErrorCode.INVALID_UPDATE_VERSION, text))
        facts.append(FeatureFinalized(update.feature, update.max_version_level))
    return Decision(() if request.validate_only else facts, DONE)


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
