"""Settings of OAUTHBEARER, under Kafka's names (KIP-768) and librdkafka's.

Note: a broker has no setting for the signature algorithm. The published keys decide, and only
public key algorithms are accepted.
"""

from dataclasses import dataclass
from typing import Final

from headwater.common.settings.declared_settings import setting
from headwater.common.settings.password import Password
from headwater.common.settings.setting_types import (
    INT_MAX,
    integer,
    long,
    names,
    one_class_of,
    one_of,
    optional,
    password,
    text,
)
from headwater.common.settings.ssl_settings import ClientSslSettings

_KAFKA: Final = "org.apache.kafka.common.security.oauthbearer"


def _handler(name: str) -> tuple[str, str]:
    """Return the two names that Kafka has given the class."""
    return f"{_KAFKA}.{name}", f"{_KAFKA}.secured.{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerOAuthSettings:
    sasl_server_callback_handler_class: str = setting(
        one_class_of(*_handler("OAuthBearerValidatorCallbackHandler")),
        "",
        "Accepted for compatibility; OAUTHBEARER tokens are always validated.",
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = setting(
        optional(text()), None, "URL of the JSON Web Key Set: https, http or file."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        long(1), 3_600_000, "Refresh interval of the JSON Web Key Set."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = setting(
        long(1), 100, "Initial backoff after a failed refresh."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = setting(
        long(1), 10_000, "Maximum backoff after a failed refresh."
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = setting(
        names(), (), "Accepted audiences of a token; empty accepts any."
    )
    sasl_oauthbearer_expected_issuer: str | None = setting(
        optional(text()), None, "Required issuer of a token."
    )
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        integer(0, INT_MAX), 30, "Maximum clock skew between broker and issuer."
    )
    sasl_oauthbearer_sub_claim_name: str = setting(
        text(), "sub", "Claim that holds the principal's name."
    )
    sasl_oauthbearer_scope_claim_name: str = setting(
        text(), "scope", "Claim that holds the scopes."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOAuthSettings(ClientSslSettings):
    """OAUTHBEARER and TLS settings of a client; slots allow only one base class."""

    sasl_login_callback_handler_class: str = setting(
        one_class_of(*_handler("OAuthBearerLoginCallbackHandler")),
        "",
        "Accepted for compatibility.",
    )
    sasl_login_connect_timeout_ms: int | None = setting(
        optional(integer(1)), None, "Connection timeout to the token endpoint."
    )
    sasl_login_read_timeout_ms: int | None = setting(
        optional(integer(1)), None, "Read timeout of the token endpoint."
    )
    sasl_login_retry_backoff_ms: int = setting(
        long(0), 100, "Initial backoff after a failed token request."
    )
    sasl_login_retry_backoff_max_ms: int = setting(
        long(0), 10_000, "Maximum time of token request retries."
    )
    sasl_oauthbearer_token_endpoint_url: str | None = setting(
        optional(text()), None, "Token endpoint: https, http, or a file with a token."
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = setting(
        optional(text()), None, "Client id for the token endpoint."
    )
    sasl_oauthbearer_client_credentials_client_secret: Password | None = setting(
        optional(password()), None, "Client secret for the token endpoint."
    )
    sasl_oauthbearer_scope: str | None = setting(
        optional(text()), None, "Scope of the requested token."
    )
    sasl_oauthbearer_extensions: tuple[str, ...] = setting(
        names(), (), "SASL extensions (name=value)."
    )
    # librdkafka's names.
    sasl_oauthbearer_method: str = setting(
        one_of("default", "oidc"), "default", "Accepted for compatibility."
    )
    sasl_oauthbearer_client_id: str | None = setting(
        optional(text()), None, "librdkafka's name of the client id."
    )
    sasl_oauthbearer_client_secret: Password | None = setting(
        optional(password()), None, "librdkafka's name of the client secret."
    )
    sasl_oauthbearer_config: str = setting(text(), "", "Argument of oauth_cb.")
