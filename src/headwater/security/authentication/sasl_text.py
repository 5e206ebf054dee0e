"""Tokens as text: UTF-8, or a refusal; and names that strangers gave, for a log."""

from typing import Final

from headwater.common.exceptions import SaslRefused

_SHOWN_LETTERS: Final = 64


def shown(name: str) -> str:
    """A name in quotes, without line breaks, and no longer than a log should bear."""
    return repr(name if len(name) <= _SHOWN_LETTERS else f"{name[:_SHOWN_LETTERS]}...")


def read_text(token: bytes) -> str:
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        raise SaslRefused("a token that is not UTF-8") from None
