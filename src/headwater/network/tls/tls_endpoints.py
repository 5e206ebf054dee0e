"""The two ends of TLS as those who open sockets have them: a listener's, and a client's.

What a reader would get wrong: a listener's context may be replaced while it listens, when
certificates were renewed. Connections that are up keep the one they began with.
"""

import socket
from collections.abc import Callable

from headwater.common.exceptions import TlsRefused
from headwater.common.principal import Principal
from headwater.common.settings.ssl_settings import ListenerSslSettings, SslSettings
from headwater.network.tls.ssl_context import client_context, listener_context
from headwater.network.tls.tls_channel import SCRATCH_BYTES, TlsTransportLayer

PrincipalOf = Callable[[bytes | None], Principal]
"""Makes a principal of the certificate that a client has shown, as DER, or of none."""


class ListenerTls:
    """What one listener speaks TLS with. For the loop's thread only."""

    __slots__ = ("_context", "_principal_of", "_scratch")

    def __init__(self, settings: ListenerSslSettings, principal_of: PrincipalOf) -> None:
        """Reads the stores, or raises `InvalidSetting`. `principal_of` may raise `TlsRefused`."""
        self._context = listener_context(settings)
        self._principal_of = principal_of
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))

    def renew(self, settings: ListenerSslSettings, principal_of: PrincipalOf) -> None:
        """Read the stores anew for whoever connects from now on; what fails changes nothing."""
        self._context = listener_context(settings)
        self._principal_of = principal_of

    def accept(self, accepted: socket.socket) -> TlsTransportLayer:
        return TlsTransportLayer(accepted, self._context, self._scratch)

    def principal(self, channel: TlsTransportLayer) -> Principal:
        """Whose certificate it was, after the handshake."""
        return self._principal_of(channel.peer_certificate)


class ClientTls:
    """What one client, or a broker towards others, speaks TLS with."""

    __slots__ = ("_context", "_scratch")

    def __init__(self, settings: SslSettings) -> None:
        """Reads the stores, or raises `InvalidSetting`."""
        self._context = client_context(settings)
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))

    def renew(self, settings: SslSettings) -> None:
        self._context = client_context(settings)

    def begin(self, connected: socket.socket, host: str) -> TlsTransportLayer:
        """The other end must have a certificate for `host`, unless settings leave that out."""
        try:
            return TlsTransportLayer(connected, self._context, self._scratch, server_name=host)
        except ValueError as error:
            raise TlsRefused(f"no certificate can be for {host!r}: {error}") from error
