"""TLS and authentication settings of an HTTP port, under Confluent's names.

    listeners=https://0.0.0.0:8081
    ssl.keystore.location=registry.pem
    authentication.method=BASIC
    headwater.authentication.users.file=users.properties

Note: an address without a scheme means `https` if a keystore is configured.
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

# Confluent's old and new setting for what Kafka calls `ssl.client.auth`.
_CLIENT_AUTH: Final = {"true": "required", "false": "none"}
_CLIENT_AUTHENTICATION: Final = "ssl.client.authentication"
# Java classes that may enforce access control: must not be ignored silently.
_EXTENSIONS: Final = (
    "resource.extension.class",
    "resource.extension.classes",
    "schema.registry.resource.extension.class",
    "rest.servlet.initializor.classes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings(ListenerSslSettings):
    """Listener, TLS and authentication."""

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
        """Return whether to use TLS, and the address; `listen` overrides the settings."""
        if listen is None and len(self.listeners) > 1:
            raise InvalidSetting("listeners must have one address: several are not supported")
        chosen = listen or next(iter(self.listeners), default)
        scheme, has_scheme, rest = chosen.rpartition("://")
        if has_scheme and scheme.lower() not in ("http", "https"):
            raise InvalidSetting(f"{chosen} is neither http:// nor https://")
        return (scheme.lower() == "https" if has_scheme else self.has_key), rest.rstrip("/")


def read_http_settings(given: Mapping[str, str]) -> tuple[HttpSettings, list[str]]:
    """Read the settings; return also unknown names. Raises `InvalidSetting`."""
    known = {kafka_name(each.name) for each in fields(HttpSettings)}
    for name in _EXTENSIONS:
        if given.get(name):
            raise InvalidSetting(f"{name} is not supported: Java classes cannot be loaded")
    values = {name: value for name, value in given.items() if name in known}
    if _CLIENT_AUTHENTICATION in given:
        values["ssl.client.auth"] = given[_CLIENT_AUTHENTICATION]
    if "ssl.client.auth" in values:
        value = values["ssl.client.auth"].strip().lower()
        values["ssl.client.auth"] = _CLIENT_AUTH.get(value, value)
    others = sorted(given.keys() - known - {_CLIENT_AUTHENTICATION})
    return read_values(HttpSettings, values, {}), others


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAddress:
    """An HTTP address with its SSL context and users."""

    listen: str
    # An `ssl.SSLContext`, which only `network.tls` imports; None for plain HTTP.
    context: Any = None
    # None without authentication.
    users: Users | None = None
    realm: str = "headwater"
    hosts: frozenset[str] = frozenset()
    """Host names that clients may use, besides IP addresses and names without a dot."""

    @classmethod
    def of(
        cls,
        settings: HttpSettings,
        listen: str | None,
        default: str,
        hosts: Collection[str] = (),
    ) -> Self:
        """Read the keystores and users, or raise `InvalidSetting`."""
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
            raise InvalidSetting(
                "headwater.authentication.users.file needs authentication.method=BASIC"
            )
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
