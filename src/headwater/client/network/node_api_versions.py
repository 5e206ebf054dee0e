"""Choose a request's API version: the highest that client and broker support.

Note: versions belong to a connection, not to a cluster. During a rolling upgrade brokers differ,
and the same broker may differ after a restart.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.client.errors import UnsupportedVersion
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.messages.api_versions import ApiVersionsResponse


@dataclass(frozen=True, slots=True)
class NodeApiVersions:
    """The API versions and features that a broker announced on this connection."""

    ranges: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]

    def choose(self, key: ApiKey, *, oldest: int = 0, newest: int | None = None) -> int:
        """The highest common version between `oldest` and `newest`.

        Raises `UnsupportedVersion` if there is none.
        """
        version = self.highest(key, newest=newest)
        if version is None or version < oldest:
            raise UnsupportedVersion(
                f"the broker does not support a required version of {APIS[key].name}"
            )
        return version

    def highest(self, key: ApiKey, *, newest: int | None = None) -> int | None:
        """The highest common version, or None if there is none."""
        announced = self.ranges.get(key)
        if announced is None:
            return None
        api = APIS[key]
        limit = min(api.newest_served(unstable=False), announced[1])
        if newest is not None:
            limit = min(limit, newest)
        return limit if limit >= max(api.oldest, announced[0]) else None

    def feature(self, name: str) -> int:
        """The finalized level of a feature; 0 if it is disabled or unknown."""
        return self.features.get(name, 0)


def node_api_versions(response: ApiVersionsResponse) -> NodeApiVersions:
    return NodeApiVersions(
        {each.api_key: (each.min_version, each.max_version) for each in response.api_keys},
        {each.name: each.max_version_level for each in response.finalized_features},
    )
