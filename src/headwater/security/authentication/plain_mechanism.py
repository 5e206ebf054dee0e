"""SASL PLAIN (RFC 4616): user and password in one message.

    [authorization id] NUL user NUL password

Note: the password is sent unencrypted, so a listener with PLAIN needs TLS.
"""

from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import Final

from headwater.common.exceptions import SaslAuthenticationFailed
from headwater.security.authentication.sasl_text import printable, read_text

MECHANISM: Final = "PLAIN"

_INVALID_CREDENTIALS: Final = "Authentication failed: Invalid username or password"
_OTHER_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)

Verify = Callable[[str, str], bool]
"""Whether the user has this password."""


def passwords(known: Mapping[str, str]) -> Verify:
    """Verify against the users and passwords of a broker's settings."""
    encoded = {user: password.encode("utf-8") for user, password in known.items()}

    def verify(user: str, password: str) -> bool:
        expected = encoded.get(user)
        # Compare for unknown users as well, so that timing does not reveal which users exist.
        is_same = compare_digest(password.encode("utf-8"), expected or b"\0")
        return is_same and expected is not None

    return verify


class PlainServer:
    """`SaslServer` of PLAIN."""

    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self.user: str | None = None
        self.expires_ms: int | None = None

    @property
    def is_complete(self) -> bool:
        return self.user is not None

    def respond(self, token: bytes) -> bytes:
        if self.is_complete:
            raise SaslAuthenticationFailed("unexpected token after PLAIN authentication completed")
        parts = read_text(token).split("\0")
        if len(parts) != 3:
            raise SaslAuthenticationFailed(f"PLAIN message has {len(parts)} parts, expected 3")
        authorization_id, user, password = parts
        if not user or not password:
            raise SaslAuthenticationFailed(f"PLAIN message has no {'password' if user else 'user'}")
        if not self._verify(user, password):
            raise SaslAuthenticationFailed(
                f"user {printable(user)} does not exist or the password is wrong",
                client_message=_INVALID_CREDENTIALS,
            )
        if authorization_id not in ("", user):
            raise SaslAuthenticationFailed(
                f"user {printable(user)} requested a different authorization id",
                client_message=_OTHER_ID,
            )
        self.user = user
        return b""


class PlainClient:
    """`SaslClient` of PLAIN."""

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()
        self._is_sent = False
        self.is_complete = False

    def respond(self, challenge: bytes) -> bytes | None:
        if not self._is_sent:
            self._is_sent = True
            return self._token
        if challenge or self.is_complete:
            raise SaslAuthenticationFailed(
                "the broker continued after PLAIN authentication completed"
            )
        self.is_complete = True
        return None
