"""Authenticate a client: SaslHandshake, then SaslAuthenticate until complete.

    begin()            SaslHandshake
    received(response)    the next SaslAuthenticate, or None when authentication is complete

Pure: the owner of the connection sends the requests.

Note: a broker may close a session that is not re-authenticated in time (KIP-368); its last response
has the session lifetime. Re-authentication happens at a random point between 85% and 95% of it, so
that the connections of a client do not all re-authenticate at once.
"""

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import (
    AuthenticationFailed,
    SaslAuthenticationFailed,
    UnsupportedMechanism,
)
from headwater.common.ports import Random
from headwater.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from headwater.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headwater.protocol.older_versions import Message
from headwater.security.authentication.sasl_exchange import SaslClient

_EARLIEST: Final = 0.85
_SPREAD: Final = 0.10
_STEPS: Final = 1_000


class SaslClientAuthenticator:
    """One authentication.

    `AuthenticationFailed` and `UnsupportedMechanism` end it and its connection.
    """

    handshake_version: Final = 1
    """From version 1 on, tokens are sent in SaslAuthenticate requests instead of raw frames."""

    def __init__(self, mechanism: str, exchange: SaslClient, rng: Random) -> None:
        self._mechanism = mechanism
        self._exchange = exchange
        self._rng = rng
        self._lifetime_ms = 0

    def begin(self) -> SaslHandshakeRequest:
        return SaslHandshakeRequest(mechanism=self._mechanism)

    def received(self, response: Message) -> SaslAuthenticateRequest | None:
        """Return the next request; None when authentication is complete."""
        if isinstance(response, SaslHandshakeResponse):
            self._check_handshake(response)
            return self._next(b"")
        assert isinstance(response, SaslAuthenticateResponse)
        if response.error_code is not ErrorCode.NONE:
            raise AuthenticationFailed(response.error_message or "authentication failed")
        self._lifetime_ms = response.session_lifetime_ms
        return self._next(bytes(response.auth_bytes))

    def renewal_ms(self) -> int | None:
        """Time from now until re-authentication; None if the session does not expire."""
        if self._lifetime_ms <= 0:
            return None
        share = _EARLIEST + _SPREAD * self._rng.below(_STEPS) / _STEPS
        return int(self._lifetime_ms * share)

    def _check_handshake(self, response: SaslHandshakeResponse) -> None:
        if response.error_code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            enabled = ", ".join(response.mechanisms) or "none"
            raise UnsupportedMechanism(
                f"the broker does not enable sasl.mechanism={self._mechanism}; it enables {enabled}"
            )
        if response.error_code is not ErrorCode.NONE:
            raise AuthenticationFailed(
                f"the broker rejected SaslHandshake: {response.error_code.name}"
            )

    def _next(self, challenge: bytes) -> SaslAuthenticateRequest | None:
        try:
            token = self._exchange.respond(challenge)
        except SaslAuthenticationFailed as refused:
            raise AuthenticationFailed(str(refused)) from refused
        if token is None:
            return None
        return SaslAuthenticateRequest(auth_bytes=token)
