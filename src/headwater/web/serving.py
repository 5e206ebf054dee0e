"""An HTTP port: bound first, served later, ended when somebody says so.

What a reader would get wrong: the port is bound when it is made, so that a taken one is told at
once, but nobody is answered before `serve`.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Self

import uvicorn
from starlette.applications import Starlette

from headwater.net.endpoint import parse_address
from headwater.net.listener import listening_socket
from headwater.net.settings import NetworkSettings

_GRACE_S: Final = 5


class HttpPort:
    """A context: at its end the port is free again. Raises `CannotListen`."""

    def __init__(self, listen: str) -> None:
        endpoint = parse_address(listen, name="HTTP")
        self._listener = listening_socket(endpoint, NetworkSettings(), both_families=True)
        self.endpoint = replace(endpoint, port=self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    async def serve(
        self, application: Starlette, ended: asyncio.Event, *, connections_max: int
    ) -> None:
        """Answer until `ended` is set, and then those who are waiting, for a few seconds."""
        config = uvicorn.Config(
            application,
            log_config=None,
            access_log=False,
            lifespan="off",
            limit_concurrency=connections_max,
            timeout_graceful_shutdown=_GRACE_S,
            server_header=False,
            ws="none",
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[self._listener]))
        waiting = asyncio.create_task(ended.wait())
        try:
            await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            server.should_exit = True
            await serving


class _Server(uvicorn.Server):
    """Signals are for whoever runs the process."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
