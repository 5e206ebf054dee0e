"""What this broker announces in ApiVersions: its APIs, and the features of its cluster."""

from headwater.broker.routes import ANNOUNCED, BETWEEN_BROKERS
from headwater.cluster.features import SUPPORTED, level_of
from headwater.cluster.image import ClusterImage
from headwater.wire.api_versions import ApiVersionsAnswers, Feature, api_versions_answers

_SEQUENCE_BITS = 32


def announcement(
    image: ClusterImage, *, unstable: bool, is_member: bool = False
) -> ApiVersionsAnswers:
    """To be made anew when features have changed; the epoch tells clients which one is newer."""
    version = image.version
    return api_versions_answers(
        (*ANNOUNCED, *BETWEEN_BROKERS) if is_member else ANNOUNCED,
        [
            Feature(
                name=name,
                lowest=levels.lowest,
                highest=levels.highest,
                finalized=level_of(image, name),
            )
            for name, levels in SUPPORTED.items()
        ],
        unstable=unstable,
        finalized_epoch=(version.controller_epoch << _SEQUENCE_BITS) + version.sequence,
    )
