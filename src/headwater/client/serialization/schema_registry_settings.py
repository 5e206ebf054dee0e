"""How a schema registry is reached: its address, a login and TLS, under Confluent's names.

    read_registry_settings({"basic.auth.user.info": "alice:secret", "ssl.ca.location": "ca.pem"})

A file of settings may speak to clients of brokers and of a registry alike; `registry_part` picks
what is the registry's. What a reader would get wrong: there `ssl.ca.location` is for both, unless
some setting begins with `schema.registry.ssl.`. Then those are the registry's, as Java has it, and
the others are for brokers only.
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
    """What a client of a registry may be told."""

    schema_registry_url: tuple[str, ...] = setting(names(), ())
    # Without it, the user info if there is one, and else what stands in the URL.
    basic_auth_credentials_source: str | None = setting(
        optional(upper_word("URL", "USER_INFO", "SASL_INHERIT")), None
    )
    basic_auth_user_info: Password | None = setting(optional(password()), None)
    # For SASL_INHERIT: the user that brokers know.
    sasl_username: str | None = setting(optional(text()), None)
    sasl_password: Password | None = setting(optional(password()), None)

    def login(self) -> str | None:
        """`user:password`, if it is not in the URL. `InvalidSetting` if it is missing."""
        source = self.basic_auth_credentials_source
        if source == "URL":
            return None
        if source == "SASL_INHERIT":
            if self.sasl_username is None or self.sasl_password is None:
                raise InvalidSetting(
                    "basic.auth.credentials.source=SASL_INHERIT needs sasl.username and "
                    "sasl.password"
                )
            return f"{self.sasl_username}:{self.sasl_password.reveal()}"
        if self.basic_auth_user_info is None:
            if source is not None:
                raise InvalidSetting(
                    "basic.auth.credentials.source=USER_INFO needs basic.auth.user.info"
                )
            return None
        pair = self.basic_auth_user_info.reveal()
        if ":" not in pair:
            raise InvalidSetting("basic.auth.user.info must be user:password")
        return pair


def read_registry_settings(given: Mapping[str, object]) -> RegistrySettings:
    """`InvalidSetting` names the one that is wrong, and `UnknownSetting` one that there is not."""
    return read_values(RegistrySettings, given, {})


NAMES: Final = tuple(
    name
    for name in sorted(kafka_name(each.name) for each in fields(RegistrySettings))
    if name not in _INHERITED
)
"""All settings, but for those that are a broker's in the first place."""

OWN_NAMES: Final = (
    URL,
    *(name for name in NAMES if name.startswith(_LOGIN)),
    *(PREFIX + name for name in NAMES if name.startswith((_TLS, _LOGIN))),
)
"""Those that speak of a registry wherever they stand."""


def is_registrys(name: str) -> bool:
    """Whether a setting is of no use to brokers."""
    return name.startswith((PREFIX, _LOGIN))


def registry_part(shared: Mapping[str, str]) -> dict[str, str]:
    """What settings that are shared with clients of brokers say about a registry."""
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
