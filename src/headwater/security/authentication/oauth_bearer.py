"""SASL OAUTHBEARER (RFC 7628): the client sends an identity provider's token.

Note: the exchange does not fail at an invalid token. As in Kafka, the broker sends an error status,
the client acknowledges it, and only then authentication fails.

Note: the token is sent unencrypted, so a listener with OAUTHBEARER needs TLS.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.common.exceptions import SaslAuthenticationFailed
from headwater.common.ports import Random
from headwater.security.authentication.oauth_bearer_messages import (
    ERROR_ACKNOWLEDGEMENT,
    INVALID_TOKEN,
    OAuthBearerClientInitialResponse,
    read_client_first,
)
from headwater.security.authentication.sasl_client_authenticator import SaslClientAuthenticator
from headwater.security.authentication.sasl_text import printable

MECHANISM: Final = "OAUTHBEARER"

_OTHER_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from "
    "the token's principal name"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBearerToken:
    """A validated token."""

    user: str
    expires_ms: int  # wall-clock time
    scopes: tuple[str, ...] = ()


ValidateToken = Callable[[str], OAuthBearerToken]
"""Validate a token, or raise `SaslAuthenticationFailed`."""


class OAuthBearerServer:
    """`SaslServer` of OAUTHBEARER."""

    def __init__(self, validate: ValidateToken) -> None:
        self._validate = validate
        self._failure: SaslAuthenticationFailed | None = None
        self.user: str | None = None
        self.expires_ms: int | None = None

    @property
    def is_complete(self) -> bool:
        return self.user is not None

    def respond(self, token: bytes) -> bytes:
        if self.is_complete:
            raise SaslAuthenticationFailed(
                "unexpected message after OAUTHBEARER authentication completed"
            )
        if self._failure is not None:
            raise SaslAuthenticationFailed(str(self._failure), client_message=INVALID_TOKEN)
        first = read_client_first(token)
        try:
            bearer = self._validate(first.token)
        except SaslAuthenticationFailed as failure:
            self._failure = failure
            return INVALID_TOKEN.encode()
        if first.authorization_id not in ("", bearer.user):
            raise SaslAuthenticationFailed(
                f"user {printable(bearer.user)} requested a different authorization id",
                client_message=_OTHER_ID,
            )
        self.expires_ms = bearer.expires_ms
        self.user = bearer.user
        return b""


class OAuthBearerClient:
    """`SaslClient` of OAUTHBEARER."""

    def __init__(self, first: OAuthBearerClientInitialResponse) -> None:
        self._first: OAuthBearerClientInitialResponse | None = first
        self._is_refused = False
        self.is_complete = False

    def respond(self, challenge: bytes) -> bytes | None:
        if self._first is not None:
            message = self._first.encode()
            self._first = None
            return message
        if self.is_complete or self._is_refused:
            raise SaslAuthenticationFailed(
                "the broker continued after OAUTHBEARER authentication completed"
            )
        if challenge:
            # An error status. The broker answers the acknowledgement with the actual error.
            self._is_refused = True
            return ERROR_ACKNOWLEDGEMENT
        self.is_complete = True
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBearerCredentials:
    """One token to authenticate with. The repr hides it."""

    token: str = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict)

    def login(self, rng: Random) -> SaslClientAuthenticator:
        first = OAuthBearerClientInitialResponse(token=self.token, extensions=self.extensions)
        return SaslClientAuthenticator(MECHANISM, OAuthBearerClient(first), rng)
