"""The settings of SASL, under Kafka's own names: of a listener, and of one of its mechanisms.

What a reader would get wrong: Kafka's default mechanism is GSSAPI, which is not served here, so
none is enabled until somebody says which.
"""

from dataclasses import dataclass
from typing import Final, TypeVar

from headwater.common.settings.declared_settings import UpdateMode, setting
from headwater.common.settings.password import Password
from headwater.common.settings.setting_types import (
    LONG_MAX,
    SettingType,
    double,
    integer,
    long,
    names,
    optional,
    password,
    short,
    text,
)

T = TypeVar("T")

_ANY: Final = double(float("-inf"), float("inf"))
_KERBEROS: Final = "Taken for compatibility; GSSAPI is not served."
_REFRESH: Final = "Taken for compatibility; brokers choose when to renew their own logins."


def _stored(kind: SettingType[T], default: T, doc: str) -> T:
    return setting(kind, default, doc, UpdateMode.PER_BROKER, has_effect=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSaslSettings:
    """What a listener with SASL asks of those who connect to it."""

    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        names(),
        (),
        "How clients may log in: `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`.",
    )
    sasl_jaas_config: Password | None = setting(
        optional(password()), None, "Users of PLAIN, and whom this broker logs in as elsewhere."
    )
    sasl_server_max_receive_size: int = setting(
        integer(1), 524_288, "The largest request before a login is done."
    )
    connections_max_reauth_ms: int = setting(
        long(0), 0, "After which time a login must be renewed; 0 is never."
    )

    # Of Kerberos and of brokers' own logins. Kafka lets clients alter them, so they are stored.
    sasl_kerberos_service_name: str | None = _stored(optional(text()), None, _KERBEROS)
    sasl_kerberos_kinit_cmd: str = _stored(text(), "/usr/bin/kinit", _KERBEROS)
    sasl_kerberos_ticket_renew_window_factor: float = _stored(_ANY, 0.8, _KERBEROS)
    sasl_kerberos_ticket_renew_jitter: float = _stored(_ANY, 0.05, _KERBEROS)
    sasl_kerberos_min_time_before_relogin: int = _stored(long(-LONG_MAX - 1), 60_000, _KERBEROS)
    sasl_kerberos_principal_to_local_rules: tuple[str, ...] = _stored(
        names(), ("DEFAULT",), _KERBEROS
    )
    sasl_login_refresh_window_factor: float = _stored(double(0.5, 1.0), 0.8, _REFRESH)
    sasl_login_refresh_window_jitter: float = _stored(double(0.0, 0.25), 0.05, _REFRESH)
    sasl_login_refresh_min_period_seconds: int = _stored(short(0, 900), 60, _REFRESH)
    sasl_login_refresh_buffer_seconds: int = _stored(short(0, 3_600), 300, _REFRESH)
