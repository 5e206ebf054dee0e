"""OAUTHBEARER settings of a listener: token validation and the key set.

Note: unsigned tokens are never accepted. Kafka accepts them by default, for development; here
`sasl.oauthbearer.jwks.endpoint.url` is required.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from headwater.broker.authentication.refreshing_jwks import KeySource, RefreshingJwks
from headwater.broker.authentication.sasl_listener import OfferedMechanism
from headwater.common.exceptions import (
    HeadwaterError,
    HttpFetchFailed,
    InvalidSetting,
    SaslAuthenticationFailed,
)
from headwater.common.ports import Clock
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.oauth_settings import ListenerOAuthSettings
from headwater.network.background_calls import BackgroundCalls, run_in_thread
from headwater.network.http_client import HttpLocation, fetch, http_location
from headwater.replication.purgatory.timer import Timer
from headwater.security.authentication.json_web_key_set import (
    JsonWebKeySet,
    check_package,
    read_key_set,
    token_header,
)
from headwater.security.authentication.oauth_bearer import (
    MECHANISM,
    OAuthBearerServer,
    OAuthBearerToken,
)
from headwater.security.authentication.oauth_bearer_messages import read_client_first
from headwater.security.authentication.oauth_token_validator import OAuthTokenValidator

_log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 10.0
_JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"


def offered_oauth(
    settings: BrokerSettings,
    listener: str,
    *,
    max_reauth_ms: int,
    clock: Clock,
    timer: Timer,
    background_calls: BackgroundCalls = run_in_thread,
) -> OfferedMechanism:
    """Return the mechanism as configured for a listener, or raise `InvalidSetting`."""
    own_settings = settings.listener_texts.of(listener).read(
        ListenerOAuthSettings, mechanism=MECHANISM
    )
    name = f"listener.name.{listener.lower()}.{MECHANISM.lower()}.{_JWKS_URL}"
    url = own_settings.sasl_oauthbearer_jwks_endpoint_url
    if not url:
        raise InvalidSetting(
            f"{MECHANISM} needs the key set of the token issuer: set {_JWKS_URL} or {name}"
        )
    check_package()
    place = http_location(url, _JWKS_URL)
    source = _source(own_settings, place)
    keys = RefreshingJwks(
        source,
        # An unusable file is reported before the broker serves requests.
        known=_read_now(source) if place.is_file else None,
        clock=clock,
        timer=timer,
        background_calls=background_calls,
    )
    validate = partial(_validate, keys, _validator(own_settings), clock)
    return OfferedMechanism(
        begin=partial(OAuthBearerServer, validate),
        max_reauth_ms=max_reauth_ms,
        prepare=partial(_prepare, keys),
        has_large_tokens=True,
    )


def _source(settings: ListenerOAuthSettings, place: HttpLocation) -> KeySource:
    def read() -> JsonWebKeySet:
        document = fetch(place, timeout_s=_TIMEOUT_S)
        try:
            return read_key_set(document)
        except InvalidSetting as error:
            raise HttpFetchFailed(f"{place}: {error}", is_retriable=True) from error

    return KeySource(
        location=str(place),
        read=read,
        refresh_ms=settings.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        backoff_ms=settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        backoff_max_ms=settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
    )


def _read_now(source: KeySource) -> JsonWebKeySet:
    try:
        return source.read()
    except HeadwaterError as error:
        raise InvalidSetting(f"{_JWKS_URL}: {error}") from error


def _validator(settings: ListenerOAuthSettings) -> OAuthTokenValidator:
    return OAuthTokenValidator(
        audiences=settings.sasl_oauthbearer_expected_audience,
        issuer=settings.sasl_oauthbearer_expected_issuer,
        skew_ms=settings.sasl_oauthbearer_clock_skew_seconds * 1_000,
        sub_claim=settings.sasl_oauthbearer_sub_claim_name,
        scope_claim=settings.sasl_oauthbearer_scope_claim_name,
    )


def _validate(
    keys: RefreshingJwks, rules: OAuthTokenValidator, clock: Clock, token: str
) -> OAuthBearerToken:
    try:
        return rules.validate(keys.known.verified(token), clock.now_ms())
    except SaslAuthenticationFailed as refused:
        # Many clients close the connection on this error without showing it, so log it here.
        _log.info("Token rejected: mechanism=%s reason=%s", MECHANISM, refused)
        raise


def _prepare(keys: RefreshingJwks, message: bytes, then: Callable[[], None]) -> None:
    try:
        key_id = token_header(read_client_first(message).token).key_id
    except SaslAuthenticationFailed:
        # The exchange reports the same error.
        then()
    else:
        keys.prepare(key_id, then)
