"""A client's login over Kafka's requests: which to send, and what its answer means.

    begin()            SaslHandshake
    heard(response)    SaslAuthenticate, again and again, and None when the login is done

Pure; whoever has the connection sends these. What a reader would get wrong: a broker may end a
session that is not renewed in time (KIP-368), and says for how long it holds only with the last
answer. It is renewed a while before its end, not all connections at the same moment.
"""

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import LoginRefused, MechanismRefused, SaslRefused
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
    """One login. `LoginRefused` and `MechanismRefused` end it, and its connection."""

    handshake_version: Final = 1
    """From this one on, tokens travel within requests."""

    def __init__(self, mechanism: str, exchange: SaslClient, rng: Random) -> None:
        self._mechanism = mechanism
        self._exchange = exchange
        self._rng = rng
        self._lifetime_ms = 0

    def begin(self) -> SaslHandshakeRequest:
        return SaslHandshakeRequest(mechanism=self._mechanism)

    def heard(self, response: Message) -> SaslAuthenticateRequest | None:
        """What to say next; None when the login is done."""
        if isinstance(response, SaslHandshakeResponse):
            self._check_handshake(response)
            return self._next(b"")
        assert isinstance(response, SaslAuthenticateResponse)
        if response.error_code is not ErrorCode.NONE:
            raise LoginRefused(response.error_message or "the broker does not believe who this is")
        self._lifetime_ms = response.session_lifetime_ms
        return self._next(bytes(response.auth_bytes))

    def renewal_ms(self) -> int | None:
        """How long after it is done to renew it; None for one that holds for ever."""
        if self._lifetime_ms <= 0:
            return None
        share = _EARLIEST + _SPREAD * self._rng.below(_STEPS) / _STEPS
        return int(self._lifetime_ms * share)

    def _check_handshake(self, response: SaslHandshakeResponse) -> None:
        if response.error_code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            enabled = ", ".join(response.mechanisms) or "none"
            raise MechanismRefused(
                f"the broker does not take sasl.mechanism={self._mechanism}; it takes {enabled}"
            )
        if response.error_code is not ErrorCode.NONE:
            raise LoginRefused(f"{response.error_code.name}: the broker takes no login here now")

    def _next(self, challenge: bytes) -> SaslAuthenticateRequest | None:
        try:
            token = self._exchange.respond(challenge)
        except SaslRefused as refused:
            raise LoginRefused(str(refused)) from refused
        if token is None:
            return None
        return SaslAuthenticateRequest(auth_bytes=token)
