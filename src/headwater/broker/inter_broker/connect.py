"""Connect to another broker: resolve its host name, then open a connection."""

import asyncio
from collections.abc import Callable

from headwater.common.exceptions import ConnectionLost
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.network.peer import Peer, PeerSettings, SocketAddress, resolve
from headwater.network.tls.tls_endpoints import ClientTls


class PeerConnector:
    """`headwater.broker.inter_broker.channel.Dial` over real sockets."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: PeerSettings,
        tls: ClientTls | None = None,
    ) -> None:
        self._tls = tls
        self._loop = loop
        self._settings = settings
        # Keep a reference: an unreferenced task may be garbage-collected before it has run.
        self._looking: set[asyncio.Task[None]] = set()

    def __call__(
        self,
        endpoint: BrokerEndpoint,
        deadline_ms: int,
        up: Callable[[], None],
        down: Callable[[ConnectionLost], None],
    ) -> Peer:
        peer = Peer(
            self._loop,
            self._settings,
            on_connected=up,
            on_disconnected=down,
            tls=self._tls,
            host=endpoint.host,
        )
        looking = self._loop.create_task(self._connect(peer, endpoint, deadline_ms, down))
        self._looking.add(looking)
        looking.add_done_callback(self._looking.discard)
        return peer

    async def _connect(
        self,
        peer: Peer,
        endpoint: BrokerEndpoint,
        deadline_ms: int,
        down: Callable[[ConnectionLost], None],
    ) -> None:
        try:
            where = await self._resolve(endpoint)
        except ConnectionLost as lost:
            if not peer.is_closed:
                down(lost)
            return
        if not peer.is_closed:
            peer.connect(where, deadline_ms=deadline_ms)

    async def _resolve(self, endpoint: BrokerEndpoint) -> SocketAddress:
        found = await resolve(self._loop, endpoint.host, endpoint.port)
        # Host names of brokers usually have one address; a retry may resolve to another one.
        return found[0]
