"""Decode SASL tokens as text, and shorten names from the network for log lines."""

from typing import Final

from headwater.common.exceptions import SaslAuthenticationFailed

_SHOWN_CHARACTERS: Final = 64


def printable(name: str) -> str:
    """Quote a name for a log line, without line breaks, in 64 characters at most."""
    return repr(name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}...")


def read_text(token: bytes) -> str:
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        raise SaslAuthenticationFailed("the token is not valid UTF-8") from None
