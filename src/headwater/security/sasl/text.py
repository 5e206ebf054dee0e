"""Tokens as text: UTF-8, or a refusal."""

from headwater.model.failures import SaslRefused


def read_text(token: bytes) -> str:
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        raise SaslRefused("a token that is not UTF-8") from None
