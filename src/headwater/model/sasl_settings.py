"""The settings of SASL, under Kafka's own names: of a listener, and of one of its mechanisms.

What a reader would get wrong: Kafka's default mechanism is GSSAPI, which is not served here, so
none is enabled until somebody says which.
"""

from dataclasses import dataclass

from headwater.model.declared_settings import setting
from headwater.model.password import Password
from headwater.model.setting_kinds import integer, long, names, optional, password


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
