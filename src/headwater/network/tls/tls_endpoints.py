"""TLS for listeners and for clients.

A listener's context may be replaced while it listens, when certificates were renewed. Existing
connections keep the context they started with.
"""

import socket
from collections.abc import Callable

from headwater.common.exceptions import TlsHandshakeFailed
from headwater.common.principal import Principal
from headwater.common.settings.ssl_settings import ListenerSslSettings, SslSettings
from headwater.network.tls.ssl_context import client_context, listener_context
from headwater.network.tls.tls_channel import SCRATCH_BYTES, TlsTransportLayer

PrincipalOf = Callable[[bytes | None], Principal]
"""Derives a principal from a client certificate (DER), or from none."""


class ListenerTls:
    """TLS of one listener. Only for the loop's thread."""

    __slots__ = ("_context", "_principal_of", "_scratch")

    def __init__(self, settings: ListenerSslSettings, principal_of: PrincipalOf) -> None:
        """Read the stores, or raise `InvalidSetting`.

        `principal_of` may raise `TlsHandshakeFailed`.
        """
        self._context = listener_context(settings)
        self._principal_of = principal_of
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))

    def reconfigure(self, settings: ListenerSslSettings, principal_of: PrincipalOf) -> None:
        """Reload the stores for new connections; an error changes nothing."""
        self._context = listener_context(settings)
        self._principal_of = principal_of

    def accept(self, accepted: socket.socket) -> TlsTransportLayer:
        return TlsTransportLayer(accepted, self._context, self._scratch)

    def principal(self, channel: TlsTransportLayer) -> Principal:
        """Return the principal of the client certificate, after the handshake."""
        return self._principal_of(channel.peer_certificate)


class ClientTls:
    """TLS of a client, or of a broker towards other brokers."""

    __slots__ = ("_context", "_scratch")

    def __init__(self, settings: SslSettings) -> None:
        """Reads the stores, or raises `InvalidSetting`."""
        self._context = client_context(settings)
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))

    def reconfigure(self, settings: SslSettings) -> None:
        self._context = client_context(settings)

    def wrap(self, connected: socket.socket, host: str) -> TlsTransportLayer:
        """Start TLS as a client; check the server's certificate for `host` if enabled."""
        try:
            return TlsTransportLayer(connected, self._context, self._scratch, server_name=host)
        except ValueError as error:
            raise TlsHandshakeFailed(f"invalid host name for TLS {host!r}: {error}") from error
