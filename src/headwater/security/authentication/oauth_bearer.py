"""OAUTHBEARER (RFC 7628): somebody else says who a client is, in a token that is shown.

What a reader would get wrong: a token that is not good enough is no refusal yet. The client hears
why, says that it has heard, and only then is refused; Kafka does this. And a token shows itself to
everybody on the way, so a listener without TLS gives it away.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.common.exceptions import SaslRefused
from headwater.common.ports import Random
from headwater.security.authentication.oauth_bearer_messages import (
    HEARD,
    INVALID_TOKEN,
    OAuthBearerClientInitialResponse,
    read_client_first,
)
from headwater.security.authentication.sasl_client_authenticator import SaslClientAuthenticator
from headwater.security.authentication.sasl_text import shown

MECHANISM: Final = "OAUTHBEARER"

_OTHER_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from "
    "the token's principal name"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBearerToken:
    """Who a token says somebody is."""

    user: str
    # By wall time.
    expires_ms: int
    scopes: tuple[str, ...] = ()


Judge = Callable[[str], OAuthBearerToken]
"""Believes a token, or raises `SaslRefused`."""


class OAuthBearerServer:
    """`ServerExchange` of OAUTHBEARER."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._doubt: SaslRefused | None = None
        self.user: str | None = None
        self.expires_ms: int | None = None

    @property
    def is_complete(self) -> bool:
        return self.user is not None

    def respond(self, token: bytes) -> bytes:
        if self.is_complete:
            raise SaslRefused("a message after the end of OAUTHBEARER")
        if self._doubt is not None:
            raise SaslRefused(str(self._doubt), told=INVALID_TOKEN)
        first = read_client_first(token)
        try:
            bearer = self._judge(first.token)
        except SaslRefused as doubt:
            self._doubt = doubt
            return INVALID_TOKEN.encode()
        if first.authorization_id not in ("", bearer.user):
            raise SaslRefused(f"user {shown(bearer.user)} wants to act for another", told=_OTHER_ID)
        self.expires_ms = bearer.expires_ms
        self.user = bearer.user
        return b""


class OAuthBearerClient:
    """`ClientExchange` of OAUTHBEARER."""

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
            raise SaslRefused("the broker goes on after the end of OAUTHBEARER")
        if challenge:
            # The broker's doubt. It is told as an error as soon as this has been heard.
            self._is_refused = True
            return HEARD
        self.is_complete = True
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBearerCredentials:
    """One token to log in with. Its repr keeps it."""

    token: str = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict)

    def login(self, rng: Random) -> SaslClientAuthenticator:
        first = OAuthBearerClientInitialResponse(token=self.token, extensions=self.extensions)
        return SaslClientAuthenticator(MECHANISM, OAuthBearerClient(first), rng)
