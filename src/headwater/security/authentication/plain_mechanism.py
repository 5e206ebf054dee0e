"""PLAIN (RFC 4616): the password itself, in one message.

    [authorization id] NUL user NUL password

What a reader would get wrong: it hides nothing. On a listener without TLS everybody on the way
reads the password.
"""

from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import Final

from headwater.common.exceptions import SaslRefused
from headwater.security.authentication.sasl_text import read_text, shown

MECHANISM: Final = "PLAIN"

_WRONG: Final = "Authentication failed: Invalid username or password"
_OTHER_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)

Verify = Callable[[str, str], bool]
"""Whether that user has that password."""


def passwords(known: Mapping[str, str]) -> Verify:
    """Users with their passwords, from a broker's settings."""
    encoded = {user: password.encode("utf-8") for user, password in known.items()}

    def verify(user: str, password: str) -> bool:
        expected = encoded.get(user)
        # Somebody unknown is compared too, so that time does not tell who is known.
        is_same = compare_digest(password.encode("utf-8"), expected or b"\0")
        return is_same and expected is not None

    return verify


class PlainServer:
    """`ServerExchange` of PLAIN."""

    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self.user: str | None = None
        self.expires_ms: int | None = None

    @property
    def is_complete(self) -> bool:
        return self.user is not None

    def respond(self, token: bytes) -> bytes:
        if self.is_complete:
            raise SaslRefused("a token after the end of PLAIN")
        parts = read_text(token).split("\0")
        if len(parts) != 3:
            raise SaslRefused(f"PLAIN has 3 parts, and not {len(parts)}")
        authorization_id, user, password = parts
        if not user or not password:
            raise SaslRefused(f"PLAIN without a {'password' if user else 'user'}")
        if not self._verify(user, password):
            raise SaslRefused(
                f"user {shown(user)} is unknown, or has another password", told=_WRONG
            )
        if authorization_id not in ("", user):
            raise SaslRefused(f"user {shown(user)} wants to act for another", told=_OTHER_ID)
        self.user = user
        return b""


class PlainClient:
    """`ClientExchange` of PLAIN."""

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()
        self._is_sent = False
        self.is_complete = False

    def respond(self, challenge: bytes) -> bytes | None:
        if not self._is_sent:
            self._is_sent = True
            return self._token
        if challenge or self.is_complete:
            raise SaslRefused("the broker goes on after the end of PLAIN")
        self.is_complete = True
        return None
