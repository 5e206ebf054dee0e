"""Finalized feature levels of the cluster (KIP-584).

Clients choose their protocol by them: with `transaction.version` 2 a Java producer uses the second
version of the transaction protocol.

Note: a new cluster starts with the highest levels, but an existing one keeps its levels until an
operator raises them, as in Kafka. A feature that is not finalized is at level 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.metadata.changes import FeatureFinalized, MetadataChange
from headwater.metadata.cluster_image import ClusterImage

GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"


@dataclass(frozen=True, slots=True)
class Levels:
    """Range of levels that this broker supports."""

    lowest: int
    highest: int


SUPPORTED: Final[Mapping[str, Levels]] = {
    GROUP_VERSION: Levels(0, 1),
    TRANSACTION_VERSION: Levels(0, 2),
}


def level_of(image: ClusterImage, feature: str) -> int:
    """Return the finalized level of a feature."""
    return image.features.get(feature, 0)


def of_new_cluster() -> list[MetadataChange]:
    """Return the finalized features of a new cluster."""
    return [FeatureFinalized(name, levels.highest) for name, levels in SUPPORTED.items()]
