"""An HTTP port with optional TLS and basic authentication.

Note: the port is bound by the constructor, so that a port in use is reported at once, but requests
are only answered after `serve`.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

import uvicorn

from headwater.http_server.basic_authentication import LoginRequired
from headwater.http_server.http_settings import HttpAddress
from headwater.network.acceptor import listening_socket
from headwater.network.endpoint import parse_address
from headwater.network.network_settings import NetworkSettings

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_GRACE_S: Final = 5


class HttpPort:
    """A context manager that closes the port. Raises `CannotListen`."""

    def __init__(self, address: HttpAddress, *, unauthorized_response: bytes, kind: str) -> None:
        """`unauthorized_response` is the body of 401 responses and `kind` its media type."""
        self._address = address
        self._unauthorized_response = unauthorized_response
        self._kind = kind
        endpoint = parse_address(address.listen, name="HTTP")
        self._listener = listening_socket(endpoint, NetworkSettings(), both_families=True)
        self.endpoint = replace(endpoint, port=self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    @property
    def url(self) -> str:
        return f"{self._address.scheme}://{self.endpoint.address}"

    async def serve(
        self, application: "ASGIApp", ended: asyncio.Event, *, connections_max: int
    ) -> None:
        """Serve requests until `ended` is set, then finish open ones for some seconds."""
        address = self._address
        if address.users is not None:
            application = LoginRequired(
                application,
                address.users,
                realm=address.realm,
                unauthorized_response=self._unauthorized_response,
                kind=self._kind,
            )
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
        # Loaded here, since uvicorn would create its own SSL context instead of ours.
        config.load()
        config.ssl = address.context
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
    """Leaves signal handling to the process."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
