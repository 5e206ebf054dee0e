"""Encode and parse OAUTHBEARER messages (RFC 7628).

    n,[a=<authorization id>],^A auth=Bearer <token> ^A [name=value ^A ...] ^A    client
    {"status":"invalid_token"}                                                  broker, on error
    ^A                                                                          client, acknowledges

Note: a token is a secret, so errors never repeat the message.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.common.exceptions import SaslAuthenticationFailed
from headwater.security.authentication.sasl_text import read_text

SEPARATOR: Final = "\x01"
ERROR_ACKNOWLEDGEMENT: Final = b"\x01"
"""The client's acknowledgement of an error status, after which the broker ends the exchange."""

INVALID_TOKEN: Final = '{"status":"invalid_token"}'

TOKEN_CHARACTERS_MAX: Final = 65_536
"""Many times the size of issued tokens, and still cheap to parse."""

_AUTH: Final = "auth"
_FIRST: Final = re.compile(
    r"n,(?:a=(?P<name>(?:[^\x00=,]|=2C|=3D)+))?,\x01(?P<pairs>(?:[^\x01]+\x01)*)\x01"
)
_PAIR: Final = re.compile(r"(?P<name>[A-Za-z]+)=(?P<value>[\x21-\x7e \t\r\n]+)")
_BEARER: Final = re.compile(r"bearer +(?P<token>[A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE)
_NAME: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBearerClientInitialResponse:
    """The client's first message. The repr hides the token."""

    token: str = field(repr=False)
    authorization_id: str = ""  # empty: the token's user
    extensions: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        name = self.authorization_id.replace("=", "=3D").replace(",", "=2C")
        acting = f"a={name}" if name else ""
        pairs = [(_AUTH, f"Bearer {self.token}"), *self.extensions.items()]
        body = "".join(f"{key}={value}{SEPARATOR}" for key, value in pairs)
        return f"n,{acting},{SEPARATOR}{body}{SEPARATOR}".encode()


def read_client_first(message: bytes) -> OAuthBearerClientInitialResponse:
    """Parse the client's first message, or raise `SaslAuthenticationFailed`."""
    found = _FIRST.fullmatch(read_text(message))
    if found is None:
        raise SaslAuthenticationFailed("malformed OAUTHBEARER message")
    pairs: dict[str, str] = {}
    for text in found["pairs"].split(SEPARATOR)[:-1]:
        pair = _PAIR.fullmatch(text)
        if pair is None:
            raise SaslAuthenticationFailed(
                "OAUTHBEARER message has an extension that is not name=value"
            )
        if pair["name"] in pairs:
            raise SaslAuthenticationFailed("OAUTHBEARER message has a duplicate key")
        pairs[pair["name"]] = pair["value"]
    bearer = _BEARER.fullmatch(pairs.pop(_AUTH, ""))
    if bearer is None:
        raise SaslAuthenticationFailed("OAUTHBEARER message has no bearer token")
    if len(bearer["token"]) > TOKEN_CHARACTERS_MAX:
        raise SaslAuthenticationFailed(
            f"token has {len(bearer['token'])} characters, the maximum is {TOKEN_CHARACTERS_MAX}"
        )
    name = (found["name"] or "").replace("=2C", ",").replace("=3D", "=")
    return OAuthBearerClientInitialResponse(
        token=bearer["token"], authorization_id=name, extensions=pairs
    )


def is_token(text: str) -> bool:
    """Whether the text is a valid bearer token (RFC 6750)."""
    return _TOKEN.fullmatch(text) is not None


def is_extension(name: str, value: str) -> bool:
    """Whether name and value are valid as a SASL extension (KIP-342)."""
    return name != _AUTH and bool(_NAME.fullmatch(name) and _VALUE.fullmatch(value))
