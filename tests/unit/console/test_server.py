"""The console's response when a handler raises."""

import asyncio
import json
from typing import Any

import pytest

from headwater.console.assets import Assets
from headwater.console.connections import Connections
from headwater.console.context import Console, ConsoleRequest
from headwater.console.history.sampler import Sampler
from headwater.console.server import ConsoleRoute, application
from headwater.console.views.cluster_view import CachedView, ClusterView
from headwater.console.views.live_tail import Tails
from headwater.console.views.pipelines import RunsReader
from headwater.console.views.record_search import RecordSearches
from headwater.http_server.request_guard import HEADERS
from headwater.network.system_clock import SystemClock


async def broken(call: ConsoleRequest) -> object:
    raise ZeroDivisionError(f"with the token {call.console.token}")


async def answered(path: str) -> tuple[int, dict[str, str], str]:
    """The response of a console whose only page raises; the exception is logged."""
    clock = SystemClock()
    connections = Connections("127.0.0.1:1", {})

    async def nothing() -> ClusterView:
        raise NotImplementedError

    views = CachedView(nothing, clock, fresh_ms=1)
    console = Console(
        connections=connections,
        cluster_views=views,
        searches=RecordSearches(connections, clock),
        tails=Tails(connections, clock, asyncio.Event()),
        runs=RunsReader(connections.consumer, connections.producer, clock),
        sampler=Sampler(connections.admin, views, clock),
        clock=clock,
        token="secret",
        is_read_only=True,
        hosts=frozenset(),
    )
    app = application(console, [ConsoleRoute(parts=("tea",), about="", read=broken)], Assets())
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    with pytest.raises(ZeroDivisionError):
        await app(scope, receive, send)
    await connections.close()
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"].decode()


@pytest.mark.parametrize("path", ["/tea", "/api/tea"])
def test_internal_error_is_reported_without_details(path: str) -> None:
    status, headers, text = asyncio.run(answered(path))
    assert status == 500
    for name, value in HEADERS.items():
        assert headers[name.lower()] == value
    assert "Internal error." in text
    assert "ZeroDivisionError" not in text
    assert "secret" not in text
    if path.startswith("/api"):
        assert list(json.loads(text)) == ["error"]
