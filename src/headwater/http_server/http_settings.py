"""What an HTTP port is told about TLS and logins, under the names that Confluent's servers have.

    listeners=https://0.0.0.0:8081
    ssl.keystore.location=registry.pem
    authentication.method=BASIC
    headwater.authentication.users.file=users.properties

What a reader would get wrong: an address without a scheme is `https` as soon as there is a key
store. Whoever has set one does not mean to be read on the way.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from headwater.client.settings import kafka_name, read_values, setting
from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.setting_types import names, optional, text, upper_word
from headwater.common.settings.ssl_settings import ListenerSslSettings
from headwater.http_server.basic_authentication import ANY_ROLE, Users
from headwater.network.tls.ssl_context import listener_context

# Confluent's older word and the newer one, for what Kafka calls `ssl.client.auth`.
_CLIENT_AUTH: Final = {"true": "required", "false": "none"}
_CLIENT_AUTHENTICATION: Final = "ssl.client.authentication"
# Java's classes, which may be there to keep people out: not to be passed over in silence.
_EXTENSIONS: Final = (
    "resource.extension.class",
    "resource.extension.classes",
    "schema.registry.resource.extension.class",
    "rest.servlet.initializor.classes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings(ListenerSslSettings):
    """TLS, logins, and where to listen."""

    listeners: tuple[str, ...] = setting(names(), ())
    authentication_method: str = setting(upper_word("NONE", "BASIC"), "NONE")
    authentication_realm: str = setting(text(), "headwater")
    authentication_roles: tuple[str, ...] = setting(names(), (ANY_ROLE,))
    headwater_authentication_users_file: str | None = setting(optional(text()), None)
    host_name: str | None = setting(optional(text()), None)
    headwater_allowed_hosts: tuple[str, ...] = setting(names(), ())

    @property
    def has_key(self) -> bool:
        return self.ssl_keystore_location is not None or self.ssl_keystore_key is not None

    def address(self, listen: str | None, default: str) -> tuple[bool, str]:
        """Whether TLS is spoken, and where; `listen` wins over the settings."""
        if listen is None and len(self.listeners) > 1:
            raise InvalidSetting("listeners must be one address: several are not served")
        chosen = listen or next(iter(self.listeners), default)
        scheme, has_scheme, rest = chosen.rpartition("://")
        if has_scheme and scheme.lower() not in ("http", "https"):
            raise InvalidSetting(f"{chosen} is neither http:// nor https://")
        return (scheme.lower() == "https" if has_scheme else self.has_key), rest.rstrip("/")


def read_http_settings(given: Mapping[str, str]) -> tuple[HttpSettings, list[str]]:
    """The settings, and the names of those that nobody here knows. `InvalidSetting`."""
    known = {kafka_name(each.name) for each in fields(HttpSettings)}
    for name in _EXTENSIONS:
        if given.get(name):
            raise InvalidSetting(f"{name} names classes of Java, which are not loaded here")
    values = {name: value for name, value in given.items() if name in known}
    if _CLIENT_AUTHENTICATION in given:
        values["ssl.client.auth"] = given[_CLIENT_AUTHENTICATION]
    if "ssl.client.auth" in values:
        said = values["ssl.client.auth"].strip().lower()
        values["ssl.client.auth"] = _CLIENT_AUTH.get(said, said)
    others = sorted(given.keys() - known - {_CLIENT_AUTHENTICATION})
    return read_values(HttpSettings, values, {}), others


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAddress:
    """An HTTP port as it is to be opened."""

    listen: str
    # An `ssl.SSLContext`, which only the room of sockets names; None speaks plain.
    context: Any = None
    # None asks nobody who they are.
    users: Users | None = None
    realm: str = "headwater"
    hosts: frozenset[str] = frozenset()
    """Names that clients may reach it by, beside addresses and names without a dot."""

    @classmethod
    def of(
        cls,
        settings: HttpSettings,
        listen: str | None,
        default: str,
        hosts: Collection[str] = (),
    ) -> Self:
        """Reads stores and users. `InvalidSetting` says what is wrong."""
        is_tls, address = settings.address(listen, default)
        return cls(
            listen=address,
            context=listener_context(settings) if is_tls else None,
            users=_users(settings),
            realm=settings.authentication_realm,
            hosts=frozenset(
                name.strip().lower().rstrip(".")
                for name in (
                    *hosts,
                    *settings.headwater_allowed_hosts,
                    settings.host_name or "",
                    address.rpartition(":")[0],
                )
                if name.strip()
            ),
        )

    @property
    def scheme(self) -> str:
        return "http" if self.context is None else "https"


def _users(settings: HttpSettings) -> Users | None:
    file = settings.headwater_authentication_users_file
    if settings.authentication_method == "NONE":
        if file is not None:
            raise InvalidSetting("users are given: set authentication.method=BASIC to ask for them")
        return None
    if file is None:
        raise InvalidSetting(
            "authentication.method=BASIC needs headwater.authentication.users.file, "
            "with a line `user: password` for each"
        )
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise InvalidSetting(
            f"headwater.authentication.users.file={file}: {error.strerror}"
        ) from None
    return Users.read(content, settings.authentication_roles)
