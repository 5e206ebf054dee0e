"""The messages of OAUTHBEARER (RFC 7628), as bytes and as values.

    n,[a=<who to act for>],^A auth=Bearer <token> ^A [name=value ^A ...] ^A    client
    {"status":"invalid_token"}                                                broker, in doubt
    ^A                                                                        client, has heard

What a reader would get wrong: a token is a secret, so no refusal repeats what was sent.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.common.exceptions import SaslRefused
from headwater.security.authentication.sasl_text import read_text

SEPARATOR: Final = "\x01"
HEARD: Final = b"\x01"
"""What a client says to a refusal, so that the broker can end the login."""

INVALID_TOKEN: Final = '{"status":"invalid_token"}'

TOKEN_LETTERS_MAX: Final = 65_536
"""Many times what issuers give out, and little work."""

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
    """What a client says. Its repr keeps the token."""

    token: str = field(repr=False)
    # For whom it wants to act; empty for whom the token says.
    authorization_id: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        name = self.authorization_id.replace("=", "=3D").replace(",", "=2C")
        acting = f"a={name}" if name else ""
        pairs = [(_AUTH, f"Bearer {self.token}"), *self.extensions.items()]
        said = "".join(f"{key}={value}{SEPARATOR}" for key, value in pairs)
        return f"n,{acting},{SEPARATOR}{said}{SEPARATOR}".encode()


def read_client_first(message: bytes) -> OAuthBearerClientInitialResponse:
    """What a client has said, or `SaslRefused`."""
    found = _FIRST.fullmatch(read_text(message))
    if found is None:
        raise SaslRefused("no first message of OAUTHBEARER")
    pairs: dict[str, str] = {}
    for text in found["pairs"].split(SEPARATOR)[:-1]:
        pair = _PAIR.fullmatch(text)
        if pair is None:
            raise SaslRefused("a pair of OAUTHBEARER that is not name=value")
        if pair["name"] in pairs:
            raise SaslRefused("a pair of OAUTHBEARER that comes twice")
        pairs[pair["name"]] = pair["value"]
    bearer = _BEARER.fullmatch(pairs.pop(_AUTH, ""))
    if bearer is None:
        raise SaslRefused("OAUTHBEARER without a bearer token")
    if len(bearer["token"]) > TOKEN_LETTERS_MAX:
        raise SaslRefused(f"a token of {len(bearer['token'])} letters")
    name = (found["name"] or "").replace("=2C", ",").replace("=3D", "=")
    return OAuthBearerClientInitialResponse(
        token=bearer["token"], authorization_id=name, extensions=pairs
    )


def is_token(text: str) -> bool:
    """Whether it can be sent as one."""
    return _TOKEN.fullmatch(text) is not None


def is_extension(name: str, value: str) -> bool:
    """Whether it can be told beside a token."""
    return name != _AUTH and bool(_NAME.fullmatch(name) and _VALUE.fullmatch(value))
