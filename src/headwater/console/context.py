"""The console's shared state, and one request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.client.aio import Admin
from headwater.common.ports import Clock
from headwater.console.connections import Connections
from headwater.console.console_errors import bad_request
from headwater.console.form_fields import named_lines, whole
from headwater.console.history.sampler import Sampler
from headwater.console.views.cluster_view import CachedView, ClusterView
from headwater.console.views.live_tail import Tails
from headwater.console.views.paging import PAGE_SIZE
from headwater.console.views.pipelines import RunsReader
from headwater.console.views.record_search import RecordSearches
from headwater.http_server.http_requests import HttpRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """State that all requests share."""

    connections: Connections
    cluster_views: CachedView[ClusterView]
    searches: RecordSearches
    tails: Tails
    sampler: Sampler
    runs: RunsReader
    clock: Clock
    token: str
    is_read_only: bool
    hosts: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleRequest(HttpRequest):
    """A request with the fields of its form or JSON body."""

    console: Console
    fields: Mapping[str, str]
    is_read_only: bool = False
    objects: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Fields of the JSON body that are objects."""

    @property
    def admin(self) -> Admin:
        return self.console.connections.admin

    async def cluster_view(self, *topics: str) -> ClusterView:
        """The cluster's topics and brokers, refreshed if one of the topics is missing."""
        found = await self.console.cluster_views.get()
        if any(each not in found.topics for each in topics):
            self.console.cluster_views.forget()
            found = await self.console.cluster_views.get()
        return found

    def page(self) -> int:
        return self.number("page", 1)

    def size(self) -> int:
        return self.number("size", PAGE_SIZE)

    def number(self, name: str, default: int) -> int:
        return whole(self.query.get(name, ""), name, default)

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """One of several values; the first one by default."""
        given = self.query.get(name) or allowed[0]
        if given not in allowed:
            raise bad_request(f"'{name}' must be one of {', '.join(allowed)}, not '{given}'.")
        return given

    def is_set(self, name: str) -> bool:
        return self.query.get(name, "") in ("1", "true", "on", "yes")

    def field(self, name: str) -> str:
        given = self.fields.get(name, "").strip()
        if not given:
            raise bad_request(f"'{name}' is missing.")
        return given

    def named(self, name: str) -> dict[str, str]:
        """Names and values: a JSON object, or a form field with one `name=value` per line."""
        if name in self.objects:
            return dict(self.objects[name])
        return named_lines(self.fields.get(name, ""), name)

    def expect_confirmation(self, name: str, what: str) -> None:
        """Require the user to type the name of what a change destroys."""
        if self.fields.get("confirm", "") != name:
            raise bad_request(f"Nothing was changed: type '{name}' to confirm that {what}.")
