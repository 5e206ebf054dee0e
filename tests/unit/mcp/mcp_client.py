"""The `mcp` package's own client, and servers of `headwater mcp` for it."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import httpx2
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from headwater.common.exceptions import BrokerDidNotStart
from headwater.testing.embedded_process import EmbeddedProcess

TIMEOUT_S = 60
T = TypeVar("T")
_READY = re.compile(r"headwater mcp ready on (https?://[^ ]+)")


class ToolFailed(AssertionError):
    """The server answered with an error."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """A value or an error, which task groups of the client would wrap."""

    values: list[T]
    error: Exception | None = None

    @classmethod
    async def of(cls, using: Awaitable[T]) -> "Outcome[T]":
        try:
            return cls([await using])
        except Exception as error:  # noqa: BLE001 - raised by `result`
            return cls([], error)

    def result(self) -> T:
        if self.error is not None:
            raise self.error
        return self.values[0]


class Tools:
    """Tools of a server, with answers as JSON."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def names(self) -> list[str]:
        return [each.name for each in (await self.client.list_tools()).tools]

    async def text(self, name: str, /, **arguments: Any) -> str:
        result = await self.client.call_tool(name, arguments)
        [content] = result.content
        assert content.type == "text"
        if result.is_error:
            raise ToolFailed(content.text)
        return content.text

    async def call(self, name: str, /, **arguments: Any) -> Any:
        return json.loads(await self.text(name, **arguments))


def over_stdio(
    bootstrap: str,
    *arguments: str,
    use: Callable[[Tools], Awaitable[T]],
    mode: str = "auto",
) -> T:
    """Start a server, use its tools, and end it by closing its standard input."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "headwater", "mcp", "-b", bootstrap, *arguments],
        env=dict(os.environ),
    )

    async def run() -> Outcome[T]:
        async with asyncio.timeout(TIMEOUT_S), Client(stdio_client(server), mode=mode) as client:
            return await Outcome.of(use(Tools(client)))

    return asyncio.run(run()).result()


def over_http(
    url: str,
    *,
    use: Callable[[Tools], Awaitable[T]],
    headers: dict[str, str] | None = None,
    mode: str = "auto",
) -> T:
    async def run() -> Outcome[T]:
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_S) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            return await Outcome.of(use(Tools(client)))

    return asyncio.run(run()).result()


class McpServer(EmbeddedProcess):
    """A process of `headwater mcp --http` on a free port."""

    def __init__(self, bootstrap_servers: str, *arguments: str) -> None:
        super().__init__(
            name="the MCP server",
            folder_prefix="headwater-mcp-",
            log_name="mcp.log",
            timeout_s=TIMEOUT_S,
        )
        self._given = ["-b", bootstrap_servers, *arguments]
        self.url = ""

    def _arguments(self, _: Path) -> list[str]:
        return ["mcp", "--http", "127.0.0.1:0", *self._given]

    def _serves(self, line: str) -> None:
        match = _READY.match(line)
        if match is None:
            raise BrokerDidNotStart(f"unexpected first line of the MCP server: {line!r}")
        self.url = match[1]
