"""Resources of API v3: kind, links to itself and others, and resource names.

{"kind": "KafkaTopic",
 "metadata": {"self": "http://host/v3/clusters/X/topics/tea",
              "resource_name": "crn:///kafka=X/topic=tea"},
 "partitions": {"related": "http://host/v3/clusters/X/topics/tea/partitions"}, ...}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlencode

from headwater.client.aio import Admin
from headwater.rest.rest_request import RestRequest

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClusterScope:
    """A request to a resource of the cluster."""

    request: RestRequest
    cluster_id: str

    @classmethod
    async def of(cls, request: RestRequest) -> Self:
        """Check the cluster id, which is the first parameter of the path."""
        cluster_id = request.parts[0]
        await request.clients.check_cluster(cluster_id)
        return cls(request, cluster_id)

    @property
    def admin(self) -> Admin:
        return self.request.clients.admin

    def url(self, *parts: object, query: Mapping[str, str] | None = None) -> str:
        """The URL of a resource below the cluster."""
        found = self.request.url("v3", "clusters", self.cluster_id, *parts)
        return f"{found}?{urlencode(query)}" if query else found

    def related(self, *parts: object) -> Json:
        return {"related": self.url(*parts)}

    def resource(self, kind: str, path: Sequence[object], crn_end: str, /, **fields: Any) -> Json:
        """A resource; `crn_end` is the part of its resource name below the cluster."""
        crn = f"crn:///kafka={self.cluster_id}"
        return {
            "kind": kind,
            "metadata": {
                "self": self.url(*path),
                "resource_name": f"{crn}/{crn_end}" if crn_end else crn,
            },
            "cluster_id": self.cluster_id,
            **fields,
        }

    def listing(
        self,
        kind: str,
        path: Sequence[object],
        data: Sequence[Json],
        *,
        query: Mapping[str, str] | None = None,
    ) -> Json:
        """A list of resources, always whole: there are no pages."""
        metadata = {"self": self.url(*path, query=query), "next": None}
        return {"kind": kind, "metadata": metadata, "data": list(data)}
