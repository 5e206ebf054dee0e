"""Settings of clients: Kafka's names, as a mapping or as keywords, typed and checked.

    read_settings(ProducerSettings, {"bootstrap.servers": "a:9092", "linger.ms": 5}, {})
    read_settings(ProducerSettings, None, {"bootstrap_servers": "a:9092", "linger_ms": 5})

A class of settings is a dataclass whose fields were made by `setting` or `plugin`. What a reader
would get wrong: values may be given as Kafka's texts ("5", "true") or as Python's own (5, True);
both go through the same check. A name that nobody knows is refused together with the nearest one
that is known, because a misspelt setting that is silently ignored costs somebody a night. Settings
that Kafka has and this client has no use for are left aside with a warning, as Kafka's clients do.
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
    """A field that is read from a text, or from a value that could be written as one."""
    return field(default=default, metadata={_KIND: kind})


def plugin(default: T) -> T:
    """A field that holds code: a function, or an object. It is taken as it is."""
    return field(default=default, metadata={_KIND: None})


def is_plugin(declared: Field[Any]) -> bool:
    return declared.metadata[_KIND] is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings(ClientOAuthSettings):
    """What all clients share."""

    bootstrap_servers: tuple[str, ...] = setting(names(), ())
    client_id: str = setting(text(), "headwater")
    client_rack: str = setting(text(), "")
    client_dns_lookup: str = setting(
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"), "use_all_dns_ips"
    )
    security_protocol: str = setting(upper_word(*SecurityProtocol), "PLAINTEXT")
    sasl_mechanism: str | None = setting(optional(text()), None)
    # librdkafka's other name of it.
    sasl_mechanisms: str | None = setting(optional(text()), None)
    sasl_jaas_config: Password | None = setting(optional(password()), None)
    sasl_username: str | None = setting(optional(text()), None)
    sasl_password: Password | None = setting(optional(password()), None)
    # Gives a token of OAUTHBEARER, as confluent-kafka calls it.
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
    # Left to the system, unlike Kafka's 128 and 64 KiB: with those a request of a megabyte takes a
    # turn of the loop for every eighth of it.
    send_buffer_bytes: int = setting(integer(-1), -1)
    receive_buffer_bytes: int = setting(integer(-1), -1)
    # Consumers and admin clients have no such setting in Kafka, but this very limit inside.
    max_in_flight_requests_per_connection: int = setting(integer(1), 100)
    # The largest answer that is taken from a broker.
    headwater_answer_max_bytes: int = setting(integer(1), INT_MAX)


def kafka_name(field_name: str) -> str:
    """`linger_ms` as Kafka writes it."""
    return field_name.replace("_", ".")


def read_settings(
    cls: type[S], given: Mapping[str, object] | None, keywords: Mapping[str, object]
) -> S:
    """The settings of a client. `InvalidSetting` names the one that is wrong."""
    settings = read_values(cls, given, keywords)
    if not settings.bootstrap_servers:
        raise InvalidSetting("bootstrap.servers must name at least one broker as host:port")
    login_of(settings)
    # A store that cannot be read is told to whoever makes a client, not to who first uses it.
    tls_of(settings)
    return settings


def read_values(
    cls: type[D], given: Mapping[str, object] | None, keywords: Mapping[str, object]
) -> D:
    """A class of settings, each of them checked for itself.

    None stands for an empty text: other clients are told so that they have no group.
    """
    values: dict[str, object] = {}
    for name, value in mapping(given or {}).items():
        _put(values, name.replace(".", "_"), value)
    for name, value in keywords.items():
        _put(values, name, value)
    known = {each.name: each for each in fields(cls)}
    for name in [name for name in values if name not in known]:
        why = UNUSED_SETTINGS.get(kafka_name(name))
        if why is None:
            raise UnknownSetting(_unknown(name, sorted(known)))
        _LOG.warning("%s is ignored: %s", kafka_name(name), why)
        del values[name]
    checked: dict[str, Any] = {
        name: _checked(name, known[name].metadata[_KIND], value)
        for name, value in values.items()
        if value is not None or known[name].default not in ("", None)
    }
    return cls(**checked)


def shared_settings(given: Mapping[str, T]) -> dict[str, T]:
    """What all clients have of settings that were written for one of them."""
    known = {kafka_name(each.name) for each in fields(ClientSettings)}
    return {name: value for name, value in given.items() if name in known}


def tls_of(settings: ClientSettings) -> ClientTls | None:
    """With what a client speaks TLS; None where it does not. `InvalidSetting` if it cannot."""
    return ClientTls(settings) if SecurityProtocol(settings.security_protocol).is_tls else None


def login_of(settings: ClientSettings) -> "Credentials | TokenSource | None":
    """With what a client logs in; None where brokers do not ask. `InvalidSetting` if it cannot."""
    if not SecurityProtocol(settings.security_protocol).is_sasl:
        return None
    # Loaded by those who log in: the others start sooner.
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
    """Settings as callers hand them in, if they are that; an address alone is the usual mistake."""
    if isinstance(given, Mapping) and all(isinstance(name, str) for name in given):
        return given
    server = given if isinstance(given, str) else "localhost:9092"
    raise InvalidSetting(
        f"settings are a mapping such as {{'bootstrap.servers': {server!r}}}, and not {given!r}"
    )


def useful_settings(cls: type[S], given: Mapping[str, object]) -> dict[str, object]:
    """Without what such a client would leave aside: for a file that several kinds share."""
    known = {kafka_name(each.name) for each in fields(cls)}
    return {
        name: value for name, value in given.items() if name in known or name not in UNUSED_SETTINGS
    }


def is_set(given: Mapping[str, object] | None, keywords: Mapping[str, object], field: str) -> bool:
    """Whether somebody asked for it, in either way of writing; defaults give way, wishes do not."""
    return field in keywords or kafka_name(field) in (given or {})


def _put(values: dict[str, object], name: str, value: object) -> None:
    if name in values:
        raise InvalidSetting(f"{kafka_name(name)} is given twice")
    values[name] = value


def _unknown(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {kafka_name(near[0])}?" if near else ""
    return f"{kafka_name(name)} is no setting of this client{hint}"


def _checked(name: str, kind: SettingType[object] | None, value: object) -> object:
    if kind is None:
        return value
    if isinstance(value, list | tuple):
        value = tuple(map(str, value))
    if not isinstance(value, str | int | float | bool | tuple):
        raise InvalidSetting(f"{kafka_name(name)} cannot be {value!r}")
    try:
        return kind.parse(format_value(value) or "")
    except ValueError as error:
        shown = "what was given" if kind.is_secret else repr(value)
        raise InvalidSetting(f"{kafka_name(name)} {error}, and not {shown}") from None
