"""The state that all requests share, one request, and the table of operations."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from headwater.common.ids import TopicPartition
from headwater.common.ports import Clock, Random
from headwater.http_server.http_requests import HttpRequest, HttpRoute
from headwater.rest.body_fields import BodyFields
from headwater.rest.consumer_instances import ConsumerInstances
from headwater.rest.rest_clients import RestClients
from headwater.rest.rest_errors import not_found
from headwater.rest.rest_settings import RestSettings

_DIGITS_MAX: Final = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class RestContext:
    """State that all requests share."""

    settings: RestSettings
    clients: RestClients
    instances: ConsumerInstances
    clock: Clock
    rng: Random


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRequest(HttpRequest):
    """A request that matched an operation."""

    context: RestContext
    content_type: str
    """Media type of the body, in lower case."""
    accepted: Sequence[str]
    """Media types that the client accepts, best first."""
    base_url: str
    """URL of this server as the client knows it, without a slash at the end."""
    body: Any = None
    """Parsed JSON; None without a body."""

    @property
    def clients(self) -> RestClients:
        return self.context.clients

    def fields(self, *, status: int) -> BodyFields:
        return BodyFields(self.body, status=status)

    def number(self, index: int) -> int:
        """A number in the path; a text that is none makes the path unknown."""
        found = read_number(self.parts[index])
        if found is None:
            raise not_found()
        return found

    def query_number(self, name: str, default: int) -> int:
        text = self.query.get(name)
        if text is None or text == "":
            return default
        found = read_number(text.removeprefix("-"))
        if found is None:
            raise not_found()
        return -found if text.startswith("-") else found

    def url(self, *parts: object) -> str:
        """An absolute URL of this server."""
        return "/".join([self.base_url, *(quote(str(each), safe="") for each in parts)])


def read_number(text: str) -> int | None:
    """Parse a number of at most 19 digits; None if it is none."""
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS_MAX:
        return None
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestAnswer:
    """A response with a status or headers of its own."""

    body: Any = None
    status: int = 200
    media_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


NO_CONTENT: Final = RestAnswer(status=204)

Handler = Callable[[RestRequest], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method of a path: its handler, and what the OpenAPI document says about it."""

    handler: Handler
    id: str
    summary: str
    body: str | None = None
    """Name of the request body's schema."""
    is_body_optional: bool = False
    answer: str | None = None
    """Name of the response's schema; None without a body."""
    status: int = 200
    query: Sequence[str] = ()
    """Names of query parameters."""
    embedded_body: bool = False
    """Whether the body contains records, whose format is in the content type."""
    embedded_answer: bool = False
    is_stream: bool = False
    """Whether the body is a sequence of JSON objects, read as it arrives."""


@dataclass(frozen=True, slots=True)
class RestRoute(HttpRoute):
    """A path and its operations by method."""

    template: str
    operations: Mapping[str, Operation]
    tag: str

    @property
    def is_v3(self) -> bool:
        return self.parts[:1] == ("v3",)


def route(template: str, tag: str, **operations: Operation) -> RestRoute:
    """A route from a template such as `/topics/{topic_name}`."""
    parts = tuple(None if each.startswith("{") else each for each in template.strip("/").split("/"))
    return RestRoute(parts, template, operations, tag)


def partition_of(fields: BodyFields) -> TopicPartition:
    return TopicPartition(fields.text("topic"), fields.number("partition"))
