"""Settings of registry clients, with Confluent's names: URL, login, TLS.

    read_registry_settings({"basic.auth.user.info": "alice:secret", "ssl.ca.location": "ca.pem"})

A properties file may be shared by clients of brokers and of a registry; `registry_part` selects the
registry's settings.

Note: in such a file `ssl.ca.location` is for both, unless a setting starts with
`schema.registry.ssl.`. Then those are for the registry, as in Java, and the others for brokers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from headwater.client.settings import kafka_name, read_values, setting
from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.password import Password
from headwater.common.settings.setting_types import names, optional, password, text, upper_word
from headwater.common.settings.ssl_settings import ClientSslSettings

URL: Final = "schema.registry.url"
PREFIX: Final = "schema.registry."
_TLS: Final = "ssl."
_LOGIN: Final = "basic.auth."
_INHERITED: Final = ("sasl.username", "sasl.password")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings(ClientSslSettings):
    schema_registry_url: tuple[str, ...] = setting(names(), ())
    # Default: the user info if there is one, else the credentials in the URL.
    basic_auth_credentials_source: str | None = setting(
        optional(upper_word("URL", "USER_INFO", "SASL_INHERIT")), None
    )
    basic_auth_user_info: Password | None = setting(optional(password()), None)
    # For SASL_INHERIT: the credentials for brokers.
    sasl_username: str | None = setting(optional(text()), None)
    sasl_password: Password | None = setting(optional(password()), None)

    def login(self) -> str | None:
        """`user:password`, unless it is in the URL. `InvalidSetting` if it is missing."""
        source = self.basic_auth_credentials_source
        if source == "URL":
            return None
        if source == "SASL_INHERIT":
            if self.sasl_username is None or self.sasl_password is None:
                raise InvalidSetting(
                    "basic.auth.credentials.source=SASL_INHERIT requires sasl.username and "
                    "sasl.password"
                )
            return f"{self.sasl_username}:{self.sasl_password.reveal()}"
        if self.basic_auth_user_info is None:
            if source is not None:
                raise InvalidSetting(
                    "basic.auth.credentials.source=USER_INFO requires basic.auth.user.info"
                )
            return None
        pair = self.basic_auth_user_info.reveal()
        if ":" not in pair:
            raise InvalidSetting("basic.auth.user.info must be user:password")
        return pair


def read_registry_settings(given: Mapping[str, object]) -> RegistrySettings:
    """Read settings; raise `InvalidSetting` or `UnknownSetting`."""
    return read_values(RegistrySettings, given, {})


NAMES: Final = tuple(
    name
    for name in sorted(kafka_name(each.name) for each in fields(RegistrySettings))
    if name not in _INHERITED
)
"""All settings except the ones that are primarily for brokers."""

OWN_NAMES: Final = (
    URL,
    *(name for name in NAMES if name.startswith(_LOGIN)),
    *(PREFIX + name for name in NAMES if name.startswith((_TLS, _LOGIN))),
)
"""Settings that are always for a registry."""


def is_registry_setting(name: str) -> bool:
    """Whether a setting is only for registry clients."""
    return name.startswith((PREFIX, _LOGIN))


def registry_settings(shared: Mapping[str, str]) -> dict[str, str]:
    """Select the registry's settings from those shared with broker clients."""
    own = {
        name.removeprefix(PREFIX): value
        for name, value in shared.items()
        if name.startswith(PREFIX) and name != URL
    }
    has_own_tls = any(name.startswith(_TLS) for name in own)
    found = {name: value for name, value in shared.items() if name.startswith(_LOGIN)}
    if URL in shared:
        found[URL] = shared[URL]
    if not has_own_tls:
        found |= {name: value for name, value in shared.items() if name in NAMES}
    found |= own
    if found.get("basic.auth.credentials.source", "").upper() == "SASL_INHERIT":
        found |= {name: shared[name] for name in _INHERITED if name in shared}
    return found
