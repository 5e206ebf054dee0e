"""What the two sides of any mechanism have in common.

What a reader would get wrong: a refusal has two texts. What the log hears may name the user and the
reason; what the peer hears, `SaslRefused.told`, must not help somebody who guesses.
"""

from typing import Protocol


class SaslServer(Protocol):
    """The broker's side of one login. Used up when it is complete or has raised."""

    @property
    def user(self) -> str | None:
        """Who has logged in; None until it is complete."""

    @property
    def is_complete(self) -> bool: ...

    @property
    def expires_ms(self) -> int | None:
        """Until when, by wall time, what was shown is valid; None for what does not expire."""

    def respond(self, token: bytes) -> bytes:
        """The answer to the client's next token, or `SaslRefused`."""


class SaslClient(Protocol):
    """The client's side of one login."""

    @property
    def is_complete(self) -> bool:
        """Whether the broker's part is done and has been found right."""

    def respond(self, challenge: bytes) -> bytes | None:
        """The next token; None if there is none. It begins with an empty challenge.

        `SaslRefused` says that the broker did not prove what it must, or said nonsense.
        """
