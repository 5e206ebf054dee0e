"""ApiVersions responses of a broker.

They depend on settings and on the cluster's features, not on the client, so each version is encoded
once and cached. A request in an unknown newer version is answered in version 0 with
UNSUPPORTED_VERSION and the supported range; its connection stays open.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS, Api
from headwater.protocol.codec import Encoded, encode
from headwater.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

# A version 3 client may fail on a feature whose levels start at 0 (KAFKA-17011).
_LEVEL_ZERO_SINCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Feature of the cluster: levels supported by this broker, finalized level.

    `finalized` is 0 for a disabled feature.
    """

    name: str
    lowest: int
    highest: int
    finalized: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponses:
    """Encoded responses of one listener."""

    _by_version: dict[int, Encoded]
    _too_new: Encoded

    def answer(self, version: int) -> Encoded:
        return self._by_version.get(version, self._too_new)


def api_versions_responses(
    served: Iterable[ApiKey],
    features: Sequence[Feature] = (),
    *,
    unstable: bool = False,
    finalized_epoch: int = 0,
) -> ApiVersionsResponses:
    """Encode the responses of a listener that serves these APIs.

    `finalized_epoch` rises whenever the finalized features change, so that clients notice.
    """
    announced = tuple(_announced(APIS[key], unstable) for key in sorted(served))
    response = ApiVersionsResponse(
        api_keys=announced,
        supported_features=tuple(
            SupportedFeatureKey(name=each.name, min_version=each.lowest, max_version=each.highest)
            for each in features
        ),
        finalized_features_epoch=finalized_epoch,
        finalized_features=tuple(
            FinalizedFeatureKey(
                name=each.name,
                max_version_level=each.finalized,
                min_version_level=each.finalized,
            )
            for each in features
            if each.finalized
        ),
    )
    api = APIS[ApiKey.API_VERSIONS]
    versions = range(api.oldest, api.newest_served(unstable=unstable) + 1)
    return ApiVersionsResponses(
        _by_version={version: encode(_for(response, version), version) for version in versions},
        _too_new=encode(_unsupported_version(_announced(api, unstable)), 0),
    )


def _announced(api: Api, unstable: bool) -> ApiVersion:
    return ApiVersion(
        api_key=api.key,
        min_version=api.announced_since,
        max_version=api.newest_served(unstable=unstable),
    )


def _for(response: ApiVersionsResponse, version: int) -> ApiVersionsResponse:
    if version >= _LEVEL_ZERO_SINCE:
        return response
    supported = tuple(each for each in response.supported_features if each.min_version > 0)
    return replace(response, supported_features=supported)


def _unsupported_version(api_versions: ApiVersion) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(api_versions,))
