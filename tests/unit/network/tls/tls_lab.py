"""Both ends of TLS for tests: a CA, a TLS server, and clients of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from headwater.common.exceptions import ConnectionLost
from headwater.common.settings.password import Password
from headwater.common.settings.ssl_settings import ListenerSslSettings, SslSettings
from headwater.network.network_settings import NetworkSettings
from headwater.network.peer import Peer, PeerSettings, resolve
from headwater.network.request_service import ResponseSlot
from headwater.network.tls.ssl_context import client_context
from headwater.network.tls.tls_endpoints import ClientTls, ListenerTls
from headwater.security.authentication.ssl_principal import principal_by
from tests.certificates import Authority, Identity
from tests.simulation.labs.connection_lab import echo
from tests.unit.network.real_sockets import TIMEOUT_S, Running, running

AUTHORITY = Authority()
BROKER = AUTHORITY.identity("broker", hosts=["127.0.0.1"])
ALICE = AUTHORITY.identity("alice", unit="Till")
UNTRUSTED = Authority("unknown").identity("mallory")


TRUST = Password(AUTHORITY.pem)
CLIENT = SslSettings(ssl_truststore_certificates=TRUST)


def showing(who: Identity) -> SslSettings:
    """Client settings with a certificate of its own."""
    return SslSettings(
        ssl_truststore_certificates=TRUST,
        ssl_keystore_key=Password(who.key_pem()),
        ssl_keystore_certificate_chain=Password(who.certificate_pem),
    )


def listener_settings(client_auth: str = "none") -> ListenerSslSettings:
    return ListenerSslSettings(
        ssl_client_auth=client_auth,
        ssl_truststore_certificates=TRUST,
        ssl_keystore_key=Password(BROKER.key_pem()),
        ssl_keystore_certificate_chain=Password(BROKER.certificate_pem),
    )


@asynccontextmanager
async def running_tls(
    settings: NetworkSettings | None = None,
    behave: Callable[[ResponseSlot, memoryview], None] = echo,
    *,
    client_auth: str = "none",
    rules: str = "DEFAULT",
) -> AsyncIterator[Running]:
    tls = ListenerTls(listener_settings(client_auth), principal_by(rules))
    async with running(settings, behave, tls=tls) as broker:
        yield broker


class TlsPeer:
    """Our own client end, connected or not."""

    def __init__(self, settings: SslSettings = CLIENT, host: str = "127.0.0.1") -> None:
        self._loop = asyncio.get_running_loop()
        self._up: asyncio.Future[None] = self._loop.create_future()
        self._down: asyncio.Future[ConnectionLost] = self._loop.create_future()
        self.peer = Peer(
            self._loop,
            PeerSettings(),
            on_connected=lambda: self._up.set_result(None),
            on_disconnected=self._down.set_result,
            tls=ClientTls(settings),
            host=host,
        )

    async def connect(self, port: int) -> None:
        (where,) = await resolve(self._loop, "127.0.0.1", port)
        self.peer.connect(where, deadline_ms=1_000)

    async def is_up(self) -> None:
        await asyncio.wait_for(self._up, TIMEOUT_S)

    async def is_lost(self) -> ConnectionLost:
        return await asyncio.wait_for(self._down, TIMEOUT_S)

    async def ask(self, number: int, frame: bytes) -> bytes:
        answered: asyncio.Future[bytes] = self._loop.create_future()
        self.peer.send_request(
            number,
            [frame],
            deadline_ms=1_000,
            then=lambda answer: answered.set_result(bytes(answer)),
            on_error=answered.set_exception,
        )
        return await asyncio.wait_for(answered, TIMEOUT_S)


class Stream:
    """Python's own TLS client, for what ours would not do."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int, settings: SslSettings = CLIENT) -> "Stream":
        context = client_context(settings)
        made = asyncio.open_connection("127.0.0.1", port, ssl=context)
        return cls(*await asyncio.wait_for(made, TIMEOUT_S))

    async def send(self, content: bytes) -> None:
        self._writer.write(content)
        await asyncio.wait_for(self._writer.drain(), TIMEOUT_S)

    async def receive(self, count: int) -> bytes:
        return await asyncio.wait_for(self._reader.readexactly(count), TIMEOUT_S)

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await asyncio.wait_for(self._writer.wait_closed(), TIMEOUT_S)
