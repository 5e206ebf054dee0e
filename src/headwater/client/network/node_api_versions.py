"""Which version of which API to speak with one broker: the highest that both know.

What a reader would get wrong: this belongs to a connection and not to a cluster. During a rolling
upgrade two brokers answer differently, and after a restart the same one does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.client.errors import UnsupportedVersion
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.messages.api_versions import ApiVersionsResponse


@dataclass(frozen=True, slots=True)
class NodeApiVersions:
    """What one broker announced when the connection came up."""

    ranges: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]

    def choose(self, key: ApiKey, *, oldest: int = 0, newest: int | None = None) -> int:
        """The highest common version, within what the caller's request can be said in.

        Raises `UnsupportedVersion` if there is none.
        """
        version = self.highest(key, newest=newest)
        if version is None or version < oldest:
            raise UnsupportedVersion(f"the broker does not serve {APIS[key].name} as it is needed")
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
        """The level at which a feature is on in the cluster; 0 if it is off or unknown."""
        return self.features.get(name, 0)


def node_api_versions(response: ApiVersionsResponse) -> NodeApiVersions:
    return NodeApiVersions(
        {each.api_key: (each.min_version, each.max_version) for each in response.api_keys},
        {each.name: each.max_version_level for each in response.finalized_features},
    )
