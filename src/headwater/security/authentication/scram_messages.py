"""Encode and parse the four SCRAM messages.

    client first   n,,n=alice,r=<nonce>
    server first   r=<nonce, extended by the server>,s=<salt>,i=<iterations>
    client final   c=biws,r=<nonce>,p=<proof>
    server final   v=<signature>      or  e=<error>

Note: signatures cover the messages exactly as they were received, so parsed messages keep their
text instead of re-encoding it. A comma or an equals sign in a name is written as =2C or =3D.
"""

import binascii
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final

from headwater.common.exceptions import SaslAuthenticationFailed
from headwater.security.authentication.sasl_text import read_text

LONGEST_BYTES: Final = 16_384
"""Far more than any valid message; parsing half a megabyte would block the event loop."""

_NAME: Final = r"(?:[^,=\0]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"[A-Za-z0-9+/]+={0,2}"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^,\0]+)*"

_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[1-9][0-9]{{0,8}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproved>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(
    rf"(?:v=(?P<signature>{_BASE64})|e=(?P<error>[^,\0]+)){_EXTENSIONS}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFirst:
    header: str
    bare: str
    authorization_id: str
    user: str
    nonce: str
    extensions: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFirst:
    text: str
    nonce: str
    salt: bytes
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFinal:
    without_proof: str
    binding: bytes
    nonce: str
    proof: bytes


def client_first(user: str, nonce: str) -> ClientFirst:
    name = escaped(user)
    return ClientFirst(
        header="n,,",
        bare=f"n={name},r={nonce}",
        authorization_id="",
        user=user,
        nonce=nonce,
        extensions="",
    )


def read_client_first(token: bytes) -> ClientFirst:
    found = _match(_CLIENT_FIRST, token, "client-first message")
    return ClientFirst(
        header=found["header"],
        bare=found["bare"],
        authorization_id=unescaped(found["authorization"] or ""),
        user=unescaped(found["name"]),
        nonce=found["nonce"],
        extensions=found["extensions"],
    )


def server_first(nonce: str, salt: bytes, iterations: int) -> ServerFirst:
    return ServerFirst(
        text=f"r={nonce},s={_encoded(salt)},i={iterations}",
        nonce=nonce,
        salt=salt,
        iterations=iterations,
    )


def read_server_first(token: bytes) -> ServerFirst:
    found = _match(_SERVER_FIRST, token, "server-first message")
    return ServerFirst(
        text=found[0],
        nonce=found["nonce"],
        salt=_decoded(found["salt"]),
        iterations=int(found["iterations"]),
    )


def final_without_proof(header: str, nonce: str) -> str:
    """The client-final message without its proof: the part that the proof signs."""
    return f"c={_encoded(header.encode())},r={nonce}"


def client_final(without_proof: str, proof: bytes) -> bytes:
    return f"{without_proof},p={_encoded(proof)}".encode()


def read_client_final(token: bytes) -> ClientFinal:
    found = _match(_CLIENT_FINAL, token, "client-final message")
    return ClientFinal(
        without_proof=found["unproved"],
        binding=_decoded(found["binding"]),
        nonce=found["nonce"],
        proof=_decoded(found["proof"]),
    )


def server_final(signature: bytes) -> bytes:
    return f"v={_encoded(signature)}".encode()


def read_server_final(token: bytes) -> bytes:
    """Return the broker's signature."""
    found = _match(_SERVER_FINAL, token, "server-final message")
    if found["error"] is not None:
        raise SaslAuthenticationFailed(f"the broker rejected the authentication: {found['error']}")
    return _decoded(found["signature"])


def auth_message(first: ClientFirst, challenge: ServerFirst, without_proof: str) -> bytes:
    """The text that both sides sign."""
    return f"{first.bare},{challenge.text},{without_proof}".encode()


def escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _match(pattern: re.Pattern[str], token: bytes, what: str) -> re.Match[str]:
    if len(token) > LONGEST_BYTES:
        raise SaslAuthenticationFailed(
            f"SCRAM {what} has {len(token)} bytes, at most {LONGEST_BYTES} are allowed"
        )
    found = pattern.fullmatch(read_text(token))
    if found is None:
        raise SaslAuthenticationFailed(f"malformed SCRAM {what}")
    return found


def _encoded(content: bytes) -> str:
    return b64encode(content).decode("ascii")


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise SaslAuthenticationFailed("SCRAM message with invalid Base64") from None
