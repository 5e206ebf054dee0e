"""Settings of SASL, under Kafka's names, for a listener or one of its mechanisms.

Note: Kafka's default mechanism is GSSAPI, which is not supported here, so none is enabled by
default.
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
_KERBEROS: Final = "Accepted for compatibility; GSSAPI is not supported."
_REFRESH: Final = "Accepted for compatibility; brokers schedule their own reauthentication."


def _stored(kind: SettingType[T], default: T, doc: str) -> T:
    return setting(kind, default, doc, UpdateMode.PER_BROKER, has_effect=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSaslSettings:
    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        names(),
        (),
        "SASL mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.",
    )
    sasl_jaas_config: Password | None = setting(
        optional(password()),
        None,
        "JAAS config: users of PLAIN, and this broker's own credentials.",
    )
    sasl_server_max_receive_size: int = setting(
        integer(1), 524_288, "Maximum size of a request before authentication has succeeded."
    )
    connections_max_reauth_ms: int = setting(
        long(0), 0, "Time after which clients must reauthenticate; 0 for never."
    )

    # Kerberos, and brokers' own logins. Kafka lets clients alter these, so they are stored.
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
