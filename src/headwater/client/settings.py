"""Client settings: Kafka's names, as a mapping or as keywords, typed and checked.

    read_settings(ProducerSettings, {"bootstrap.servers": "a:9092", "linger.ms": 5}, {})
    read_settings(ProducerSettings, None, {"bootstrap_servers": "a:9092", "linger_ms": 5})

A settings class is a dataclass whose fields are made by `setting` or `plugin`. Values may be
Kafka's texts ("5", "true") or Python values (5, True); both are checked in the same way. An unknown
name is rejected with the nearest known one, because a misspelt setting must not be ignored.
Settings of Kafka without effect here are ignored with a warning, as Kafka's clients do.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headwater.client.ignored_settings import UNUSED_SETTINGS
from headwater.common.exceptions import InvalidSetting, UnknownSetting
from headwater.common.security_protocol import SecurityProtocol
from headwater.common.settings.oauth_settings import ClientOAuthSettings
from headwater.common.settings.password import Password
from headwater.common.settings.setting_types import (
    INT_MAX,
    SettingType,
    format_value,
    integer,
    long,
    names,
    one_of,
    optional,
    password,
    text,
    upper_word,
)
from headwater.network.tls.tls_endpoints import ClientTls

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from headwater.client.network.oauth_token_source import TokenSource
    from headwater.security.authentication.sasl_credentials import Credentials

_KIND: Final = "kind"
_BEARER: Final = "OAUTHBEARER"
_LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")
D = TypeVar("D", bound="DataclassInstance")
S = TypeVar("S", bound="ClientSettings")


def setting(kind: SettingType[T], default: T) -> T:
    """A field that is parsed from a text or a simple value."""
    return field(default=default, metadata={_KIND: kind})


def plugin(default: T) -> T:
    """A field that holds a function or an object, taken as it is."""
    return field(default=default, metadata={_KIND: None})


def is_plugin(declared: Field[Any]) -> bool:
    return declared.metadata[_KIND] is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings(ClientOAuthSettings):
    """The settings that all clients share."""

    bootstrap_servers: tuple[str, ...] = setting(names(), ())
    client_id: str = setting(text(), "headwater")
    client_rack: str = setting(text(), "")
    client_dns_lookup: str = setting(
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"), "use_all_dns_ips"
    )
    security_protocol: str = setting(upper_word(*SecurityProtocol), "PLAINTEXT")
    sasl_mechanism: str | None = setting(optional(text()), None)
    # librdkafka's name for it.
    sasl_mechanisms: str | None = setting(optional(text()), None)
    sasl_jaas_config: Password | None = setting(optional(password()), None)
    sasl_username: str | None = setting(optional(text()), None)
    sasl_password: Password | None = setting(optional(password()), None)
    # Returns an OAUTHBEARER token; confluent-kafka's name.
    oauth_cb: Callable[[str], Sequence[object]] | None = plugin(None)
    metadata_max_age_ms: int = setting(long(0), 300_000)
    metadata_recovery_strategy: str = setting(one_of("none", "rebootstrap"), "rebootstrap")
    request_timeout_ms: int = setting(integer(1), 30_000)
    retry_backoff_ms: int = setting(long(0), 100)
    retry_backoff_max_ms: int = setting(long(0), 1_000)
    reconnect_backoff_ms: int = setting(long(0), 50)
    reconnect_backoff_max_ms: int = setting(long(0), 1_000)
    socket_connection_setup_timeout_ms: int = setting(long(1), 10_000)
    connections_max_idle_ms: int = setting(long(-1), 540_000)
    # The system's default, unlike Kafka's 128 and 64 KiB, with which a request of a megabyte needs
    # eight iterations of the loop.
    send_buffer_bytes: int = setting(integer(-1), -1)
    receive_buffer_bytes: int = setting(integer(-1), -1)
    # Kafka has this setting only for producers, and this limit inside the other clients.
    max_in_flight_requests_per_connection: int = setting(integer(1), 100)
    # The maximum size of a response.
    headwater_answer_max_bytes: int = setting(integer(1), INT_MAX)


def kafka_name(field_name: str) -> str:
    """`linger_ms` as `linger.ms`."""
    return field_name.replace("_", ".")


def read_settings(
    cls: type[S], given: Mapping[str, object] | None, keywords: Mapping[str, object]
) -> S:
    """Read the settings of a client; `InvalidSetting` names an invalid one."""
    settings = read_values(cls, given, keywords)
    if not settings.bootstrap_servers:
        raise InvalidSetting("bootstrap.servers must name at least one broker as host:port")
    login_of(settings)
    # Report an unreadable trust store when the client is created, not on first use.
    tls_of(settings)
    return settings


def read_values(
    cls: type[D], given: Mapping[str, object] | None, keywords: Mapping[str, object]
) -> D:
    """Read and check the settings of a class.

    None counts as an empty text: in other clients it means no group.
    """
    values: dict[str, object] = {}
    for name, value in mapping(given or {}).items():
        _put(values, name.replace(".", "_"), value)
    for name, value in keywords.items():
        _put(values, name, value)
    known = {each.name: each for each in fields(cls)}
    for name in [name for name in values if name not in known]:
        reason = UNUSED_SETTINGS.get(kafka_name(name))
        if reason is None:
            raise UnknownSetting(_unknown(name, sorted(known)))
        _LOG.warning("Setting ignored: name=%s reason=%s", kafka_name(name), reason)
        del values[name]
    checked: dict[str, Any] = {
        name: _checked(name, known[name].metadata[_KIND], value)
        for name, value in values.items()
        if value is not None or known[name].default not in ("", None)
    }
    return cls(**checked)


def shared_settings(given: Mapping[str, T]) -> dict[str, T]:
    """The settings that all clients share, from settings of any client."""
    known = {kafka_name(each.name) for each in fields(ClientSettings)}
    return {name: value for name, value in given.items() if name in known}


def tls_of(settings: ClientSettings) -> ClientTls | None:
    """A client's TLS configuration; None without TLS. Raises `InvalidSetting`."""
    return ClientTls(settings) if SecurityProtocol(settings.security_protocol).is_tls else None


def login_of(settings: ClientSettings) -> "Credentials | TokenSource | None":
    """A client's credentials; None without SASL. Raises `InvalidSetting`."""
    if not SecurityProtocol(settings.security_protocol).is_sasl:
        return None
    # Imported here so that clients without SASL start faster.
    from headwater.security.authentication.sasl_credentials import credentials

    if (settings.sasl_mechanism or settings.sasl_mechanisms) == _BEARER:
        from headwater.client.network.oauth_token_source import token_source

        return token_source(settings)
    jaas, password_ = settings.sasl_jaas_config, settings.sasl_password
    return credentials(
        settings.sasl_mechanism or settings.sasl_mechanisms,
        jaas=jaas and jaas.reveal(),
        user=settings.sasl_username,
        password=password_ and password_.reveal(),
    )


def mapping(given: object) -> Mapping[str, object]:
    """Check that settings are a mapping; a common mistake is to pass just an address."""
    if isinstance(given, Mapping) and all(isinstance(name, str) for name in given):
        return given
    server = given if isinstance(given, str) else "localhost:9092"
    raise InvalidSetting(
        f"settings must be a mapping such as {{'bootstrap.servers': {server!r}}}, not {given!r}"
    )


def supported_settings(cls: type[S], given: Mapping[str, object]) -> dict[str, object]:
    """Drop settings without effect for this client, from a shared file."""
    known = {kafka_name(each.name) for each in fields(cls)}
    return {
        name: value for name, value in given.items() if name in known or name not in UNUSED_SETTINGS
    }


def is_set(given: Mapping[str, object] | None, keywords: Mapping[str, object], field: str) -> bool:
    """Whether a setting was given explicitly, in either form."""
    return field in keywords or kafka_name(field) in (given or {})


def _put(values: dict[str, object], name: str, value: object) -> None:
    if name in values:
        raise InvalidSetting(f"{kafka_name(name)} is given twice")
    values[name] = value


def _unknown(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {kafka_name(near[0])}?" if near else ""
    return f"{kafka_name(name)} is not a setting of this client{hint}"


def _checked(name: str, kind: SettingType[object] | None, value: object) -> object:
    if kind is None:
        return value
    if isinstance(value, list | tuple):
        value = tuple(map(str, value))
    if not isinstance(value, str | int | float | bool | tuple):
        raise InvalidSetting(f"{kafka_name(name)} has the unsupported value {value!r}")
    try:
        return kind.parse(format_value(value) or "")
    except ValueError as error:
        shown = "the given value" if kind.is_secret else repr(value)
        raise InvalidSetting(f"{kafka_name(name)} {error}, not {shown}") from None
