"""Build ApiVersions responses: served APIs, and supported and finalized features."""

from headwater.broker.requests.api_routes import ANNOUNCED_APIS, INTER_BROKER_APIS
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.features import SUPPORTED, level_of
from headwater.protocol.api_versions_response import (
    ApiVersionsResponses,
    Feature,
    api_versions_responses,
)

_SEQUENCE_BITS = 32


def api_versions(
    image: ClusterImage, *, unstable: bool, is_member: bool = False
) -> ApiVersionsResponses:
    """Return the responses for the current features; clients keep the newest epoch."""
    version = image.version
    return api_versions_responses(
        (*ANNOUNCED_APIS, *INTER_BROKER_APIS) if is_member else ANNOUNCED_APIS,
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
