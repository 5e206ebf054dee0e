"""Features: what all brokers of a cluster have agreed to do, by levels (KIP-584).

A level is finalized for the whole cluster, and clients choose their protocol by it: with
`transaction.version` 2 a Java producer speaks the second version of transactions. What a reader
would get wrong: a new cluster begins with the highest levels, but one that exists keeps its own
until somebody raises them, as in Kafka. A feature that is not finalized is at level 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.metadata.changes import FeatureFinalized, MetadataChange
from headwater.metadata.cluster_image import ClusterImage

GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"


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


def of_new_cluster() -> list[MetadataChange]:
    """What a cluster begins with."""
    return [FeatureFinalized(name, levels.highest) for name, levels in SUPPORTED.items()]
