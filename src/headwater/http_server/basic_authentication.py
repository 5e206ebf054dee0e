"""HTTP basic authentication with users from a properties file.

The file format is that of Jetty's HashLoginService, which Confluent's servers use: `alice:
secret,role,role`.

Note: an unknown user takes as much time as a wrong password, so that timing does not reveal which
users exist.
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
ROLES: Final = "headwater.roles"
"""Key of the user's roles in the scope of an authenticated request."""

_SCHEME: Final = "basic"
_NO_USER_DIGEST: Final = hashlib.sha256(b"").digest()
# Jetty's other password formats: none of them hides the password well.
_UNSUPPORTED_FORMATS: Final = ("OBF:", "MD5:", "CRYPT:")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Users:
    """Users, the digests of their passwords, and their roles."""

    _digests: Mapping[str, bytes] = field(repr=False)
    _roles: Mapping[str, frozenset[str]] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, content: bytes, roles: Collection[str] = (ANY_ROLE,)) -> Self:
        """Read the users of a file that have one of the roles, or raise `InvalidSetting`."""
        try:
            lines = parse_properties(content)
        except ValueError as error:
            raise InvalidSetting(f"cannot parse the users file: {error}") from None
        found, roles_of = {}, {}
        for user, value in lines.items():
            password, *own = (each.strip() for each in value.split(","))
            if not password:
                raise InvalidSetting(f"user {user} has no password")
            if password.startswith(_UNSUPPORTED_FORMATS):
                raise InvalidSetting(
                    f"the password of {user} has format {password.partition(':')[0]}, which is not "
                    "supported: use plain text, and restrict access to the file"
                )
            if ANY_ROLE in roles or set(own) & set(roles):
                found[user] = _digest(password)
                roles_of[user] = frozenset(own)
        if not found:
            raise InvalidSetting("the users file has no user with an allowed role")
        return cls(found, roles_of)

    def roles(self, user: str) -> frozenset[str]:
        return self._roles.get(user, frozenset())

    def authenticate(self, header: str | None) -> str | None:
        """Return the user whose credentials are in the `Authorization` header, else None."""
        user, password = _pair(header)
        expected = self._digests.get(user, _NO_USER_DIGEST)
        is_right = hmac.compare_digest(_digest(password), expected)
        return user if is_right and user in self._digests else None


class LoginRequired:
    """An ASGI application that requires a login before it calls another one."""

    def __init__(
        self,
        application: "ASGIApp",
        users: Users,
        *,
        realm: str,
        unauthorized_response: bytes,
        kind: str,
    ) -> None:
        """`unauthorized_response` is the body of a 401 response and `kind` its media type."""
        self._application = application
        self._users = users
        self._challenge = {"WWW-Authenticate": f'Basic realm="{realm}", charset="UTF-8"'}
        self._unauthorized_response = unauthorized_response
        self._kind = kind

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        header = next(
            (value for name, value in scope["headers"] if name == b"authorization"), b""
        ).decode("latin-1")
        user = self._users.authenticate(header)
        if user is not None:
            await self._application({**scope, ROLES: self._users.roles(user)}, receive, send)
            return
        if header:
            address = (scope.get("client") or ("unknown",))[0]
            log.warning("Authentication failed: client=%s user=%r", address, _pair(header)[0])
        unauthorized = Response(
            self._unauthorized_response, 401, self._challenge, media_type=self._kind
        )
        await unauthorized(scope, receive, send)


def _pair(header: str | None) -> tuple[str, str]:
    """Return user and password; empty strings without valid credentials."""
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
