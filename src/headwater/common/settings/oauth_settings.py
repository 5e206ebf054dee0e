"""The settings of OAUTHBEARER, under Kafka's own names (KIP-768) and librdkafka's.

What a reader would get wrong: a broker is not told what a token may be signed with, but where the
keys are published. The keys decide, and only those that can be public are taken.
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
    """The class under the two names that Kafka has given it."""
    return f"{_KAFKA}.{name}", f"{_KAFKA}.secured.{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerOAuthSettings:
    """What a listener asks of tokens."""

    sasl_server_callback_handler_class: str = setting(
        one_class_of(*_handler("OAuthBearerValidatorCallbackHandler")),
        "",
        "Taken for compatibility; tokens of OAUTHBEARER are always checked.",
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = setting(
        optional(text()), None, "Where the keys of tokens are published: https, http or file."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        long(1), 3_600_000, "How often the keys are looked up again."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = setting(
        long(1), 100, "After which time a lookup that failed is tried again, at first."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = setting(
        long(1), 10_000, "After which time it is tried again at the most."
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = setting(
        names(), (), "Whom tokens must be for, one of these; empty leaves that out."
    )
    sasl_oauthbearer_expected_issuer: str | None = setting(
        optional(text()), None, "Who must have given out tokens."
    )
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        integer(0, INT_MAX), 30, "How far the clocks of broker and issuer may be apart."
    )
    sasl_oauthbearer_sub_claim_name: str = setting(
        text(), "sub", "The claim that says who somebody is."
    )
    sasl_oauthbearer_scope_claim_name: str = setting(
        text(), "scope", "The claim that has the scopes of a token."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOAuthSettings(ClientSslSettings):
    """Where a client has its tokens from; those of TLS beside it, as slots want one ancestor."""

    sasl_login_callback_handler_class: str = setting(
        one_class_of(*_handler("OAuthBearerLoginCallbackHandler")), "", "Taken for compatibility."
    )
    sasl_login_connect_timeout_ms: int | None = setting(
        optional(integer(1)), None, "How long to wait for a connection to the issuer."
    )
    sasl_login_read_timeout_ms: int | None = setting(
        optional(integer(1)), None, "How long to wait for the issuer's answer."
    )
    sasl_login_retry_backoff_ms: int = setting(
        long(0), 100, "After which time the issuer is asked again, at first."
    )
    sasl_login_retry_backoff_max_ms: int = setting(
        long(0), 10_000, "For how long the issuer is asked again."
    )
    sasl_oauthbearer_token_endpoint_url: str | None = setting(
        optional(text()), None, "Where tokens are given out: https, http, or a file with one."
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = setting(
        optional(text()), None, "Who asks for a token."
    )
    sasl_oauthbearer_client_credentials_client_secret: Password | None = setting(
        optional(password()), None, "How it is proved that this is so."
    )
    sasl_oauthbearer_scope: str | None = setting(
        optional(text()), None, "What a token shall be good for."
    )
    sasl_oauthbearer_extensions: tuple[str, ...] = setting(
        names(), (), "What is told with a token, as name=value."
    )
    # librdkafka's names.
    sasl_oauthbearer_method: str = setting(
        one_of("default", "oidc"), "default", "Taken for compatibility."
    )
    sasl_oauthbearer_client_id: str | None = setting(
        optional(text()), None, "librdkafka's name of the client's id."
    )
    sasl_oauthbearer_client_secret: Password | None = setting(
        optional(password()), None, "librdkafka's name of the client's secret."
    )
    sasl_oauthbearer_config: str = setting(text(), "", "A text that `oauth_cb` is called with.")
