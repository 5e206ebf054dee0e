"""Build ApiVersions responses: served APIs, and supported and finalized features."""

from collections.abc import Mapping, Sequence

from headwater.broker.requests.api_routes import ANNOUNCED_APIS
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.features import SUPPORTED, Levels, level_of
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_versions_response import (
    ApiVersionsResponses,
    Feature,
    api_versions_responses,
)

_SEQUENCE_BITS = 32


def api_versions(
    image: ClusterImage,
    *,
    unstable: bool,
    cluster_apis: Sequence[ApiKey] = (),
    features: Mapping[str, Levels] = SUPPORTED,
) -> ApiVersionsResponses:
    """Return the responses for the current features; clients keep the newest epoch."""
    version = image.version
    return api_versions_responses(
        (*ANNOUNCED_APIS, *cluster_apis),
        [
            Feature(
                name=name,
                lowest=levels.lowest,
                highest=levels.highest,
                finalized=level_of(image, name),
            )
            for name, levels in features.items()
        ],
        unstable=unstable,
        finalized_epoch=(version.controller_epoch << _SEQUENCE_BITS) + version.sequence,
    )
