"""Interfaces of SASL mechanisms: both sides of an exchange.

Note: a failure has two texts. The exception's message goes to the broker's log and may name the
user and the reason; `SaslAuthenticationFailed.client_message` goes to the peer and must not help to
guess credentials.
"""

from typing import Protocol


class SaslServer(Protocol):
    """Broker's side of one authentication; unusable once complete or failed."""

    @property
    def user(self) -> str | None:
        """Authenticated user; None until the exchange is complete."""

    @property
    def is_complete(self) -> bool: ...

    @property
    def expires_ms(self) -> int | None:
        """Wall-clock time at which the credential expires; None if it does not."""

    def respond(self, token: bytes) -> bytes:
        """Return the answer to the client's token, or raise `SaslAuthenticationFailed`."""


class SaslClient(Protocol):
    """Client's side of one authentication."""

    @property
    def is_complete(self) -> bool:
        """Whether the broker has sent its last token and it was valid."""

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next token, or None if there is none. The first challenge is empty.

        Raises `SaslAuthenticationFailed` if the broker's challenge is malformed or does not prove
        its identity.
        """
