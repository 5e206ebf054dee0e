"""Who may enter an HTTP port: users of a file, by basic authentication.

The file is that of Jetty's logins, which Confluent's servers use: `alice: secret,role,role`. What a
reader would get wrong: a user whom nobody knows costs as much time as a wrong password, so that
time tells nothing about who is known.
"""

import base64
import binascii
import hashlib
import hmac
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from starlette.responses import Response

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.java_properties import parse_properties

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

ANY_ROLE: Final = "*"

_SCHEME: Final = "basic"
_NOBODY: Final = hashlib.sha256(b"").digest()
# Jetty's other ways to write a password down: none of them hides it well.
_NOT_PLAIN: Final = ("OBF:", "MD5:", "CRYPT:")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Users:
    """Who is known, by the digests of their passwords."""

    _digests: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def read(cls, content: bytes, roles: Collection[str] = (ANY_ROLE,)) -> Self:
        """Those of a file who have one of the roles. `InvalidSetting` says what is wrong."""
        try:
            lines = parse_properties(content)
        except ValueError as error:
            raise InvalidSetting(f"the users cannot be read: {error}") from None
        found = {}
        for user, said in lines.items():
            password, *own = (each.strip() for each in said.split(","))
            if not password:
                raise InvalidSetting(f"the user {user} has no password")
            if password.startswith(_NOT_PLAIN):
                raise InvalidSetting(
                    f"the password of {user} is written as {password.partition(':')[0]}, which is "
                    "not read: write it as it is, and let nobody else read the file"
                )
            if ANY_ROLE in roles or set(own) & set(roles):
                found[user] = _digest(password)
        if not found:
            raise InvalidSetting("there is no user who may enter")
        return cls(found)

    def who(self, header: str | None) -> str | None:
        """The user whom the header `Authorization` proves; None for all others."""
        user, password = _pair(header)
        expected = self._digests.get(user, _NOBODY)
        is_right = hmac.compare_digest(_digest(password), expected)
        return user if is_right and user in self._digests else None


class LoginRequired:
    """An ASGI application that lets nobody pass to another one without a login."""

    def __init__(
        self, application: "ASGIApp", users: Users, *, realm: str, refusal: bytes, kind: str
    ) -> None:
        """`refusal` is the body of an answer to strangers, and `kind` its media type."""
        self._application = application
        self._users = users
        self._challenge = {"WWW-Authenticate": f'Basic realm="{realm}", charset="UTF-8"'}
        self._refusal = refusal
        self._kind = kind

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        header = next(
            (value for name, value in scope["headers"] if name == b"authorization"), b""
        ).decode("latin-1")
        if self._users.who(header) is not None:
            await self._application(scope, receive, send)
            return
        if header:
            address = (scope.get("client") or ("somebody",))[0]
            log.warning("%s: a login failed, as %r", address, _pair(header)[0])
        refused = Response(self._refusal, 401, self._challenge, media_type=self._kind)
        await refused(scope, receive, send)


def _pair(header: str | None) -> tuple[str, str]:
    """User and password; empty ones where there are none."""
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != _SCHEME:
        return "", ""
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return "", ""
    user, _, password = text.partition(":")
    return user, password


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
