"""Sources of OAUTHBEARER tokens: a function, a file, or a token endpoint.

    oauth_cb                              called with a string, returns (token, expiry in seconds)
    token.endpoint.url=file:/run/token    read again for each new token
    token.endpoint.url=https://...        client credentials grant (RFC 6749, 4.4)

`TokenSource.obtain` blocks.

Note: error messages must contain neither token nor secret, so a server's response is described by
its status and at most one word.
"""

import base64
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from headwater.common.exceptions import HttpFetchFailed, InvalidSetting
from headwater.network.http_client import HttpLocation, fetch, http_location
from headwater.security.authentication.jaas_config import read_jaas
from headwater.security.authentication.oauth_bearer import OAuthBearerCredentials
from headwater.security.authentication.oauth_bearer_messages import (
    TOKEN_CHARACTERS_MAX,
    is_extension,
    is_token,
)

if TYPE_CHECKING:
    from headwater.client.settings import ClientSettings

_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_MODULE: Final = "OAuthBearerLoginModule"
_TIMEOUT_MS: Final = 10_000
_EXTENSION: Final = "extension_"
# A sanity limit for expiry times.
_LATEST_S: Final = 2**42


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its expiry in wall-clock time; None if unknown."""

    credentials: OAuthBearerCredentials
    expires_ms: int | None


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Obtains a new token with each call. Blocks, and raises `HttpFetchFailed`."""

    obtain: Callable[[], Token] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """Client id, secret and scope for the token endpoint."""

    client_id: str
    secret: str = field(repr=False)
    scope: str | None = None


def token_source(settings: "ClientSettings") -> TokenSource:
    """The token source of the settings; `InvalidSetting` if they are incomplete."""
    options = _jaas_options(settings)
    extensions = _extensions(settings, options)
    url = settings.sasl_oauthbearer_token_endpoint_url
    if settings.oauth_cb is not None:
        if url is not None:
            raise InvalidSetting(f"give oauth_cb or {_URL}, not both")
        if not callable(settings.oauth_cb):
            raise InvalidSetting("oauth_cb must be a function that returns (token, expiry)")
        callback, text = settings.oauth_cb, settings.sasl_oauthbearer_config
        return TokenSource(lambda: called_back(callback(text), extensions))
    if not url:
        raise InvalidSetting(f"OAUTHBEARER requires {_URL}, or oauth_cb in a program")
    place = http_location(url, _URL)
    if place.is_file:
        return TokenSource(lambda: _from_file(place, extensions))
    credentials = _client_credentials(settings, options)
    return TokenSource(
        lambda: _with_retries(settings, lambda: _from_endpoint(settings, place, credentials))
    )


def called_back(given: object, extensions: Mapping[str, str]) -> Token:
    """Check the result of `oauth_cb`: (token, seconds[, principal, extensions])."""
    match given:
        case (str(token), int() | float() as ends_s):
            more: object = None
        case (str(token), int() | float() as ends_s, str() | None):
            more = None
        case (str(token), int() | float() as ends_s, str() | None, more):
            pass
        case _:
            raise _no_token("oauth_cb must return (token, expiry in seconds)")
    own = more if isinstance(more, Mapping) else {}
    merged = {**extensions, **{str(name): str(value) for name, value in own.items()}}
    if not all(is_extension(name, value) for name, value in merged.items()):
        raise _no_token("oauth_cb returned an invalid extension")
    return _token(token, int(ends_s * 1_000), merged, "oauth_cb")


def token_end_ms(token: str) -> int | None:
    """The `exp` claim of a JWT, if present. The token is not verified."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    end_s = claims.get("exp") if isinstance(claims, dict) else None
    if not isinstance(end_s, int | float) or isinstance(end_s, bool):
        return None
    return int(end_s * 1_000) if 0 <= end_s < _LATEST_S else None


def _from_file(place: HttpLocation, extensions: Mapping[str, str]) -> Token:
    text = fetch(place, timeout_s=0).decode("ascii", "replace").strip()
    return _token(text, token_end_ms(text), extensions, str(place))


def _from_endpoint(
    settings: "ClientSettings", place: HttpLocation, credentials: ClientCredentials
) -> Token:
    form = {"grant_type": "client_credentials"}
    if credentials.scope:
        form["scope"] = credentials.scope
    proof = base64.b64encode(f"{credentials.client_id}:{credentials.secret}".encode())
    document = fetch(
        place,
        timeout_s=(settings.sasl_login_read_timeout_ms or _TIMEOUT_MS) / 1_000,
        connect_timeout_s=(settings.sasl_login_connect_timeout_ms or _TIMEOUT_MS) / 1_000,
        headers={
            "Accept": "application/json",
            "Authorization": f"Basic {proof.decode('ascii')}",
            "Content-Type": "application/x-www-form-urlencoded",
        },
        body=urlencode(form).encode("ascii"),
    )
    try:
        answer = json.loads(document)
    except (ValueError, RecursionError):
        answer = None
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str):
        raise _no_token(f"the response of {place} has no access_token")
    lifetime_s = answer.get("expires_in")
    end_ms = token_end_ms(token)
    if end_ms is None and isinstance(lifetime_s, int) and 0 < lifetime_s < 2**31:
        end_ms = int(time.time() * 1_000) + lifetime_s * 1_000
    return _token(token, end_ms, _extensions(settings, _jaas_options(settings)), str(place))


def _with_retries(settings: "ClientSettings", ask: Callable[[], Token]) -> Token:
    """Retry temporary failures within `sasl.login.retry.backoff.max.ms`, as Kafka."""
    rest_ms = settings.sasl_login_retry_backoff_ms
    ends_s = time.monotonic() + settings.sasl_login_retry_backoff_max_ms / 1_000
    while True:
        try:
            return ask()
        except HttpFetchFailed as failure:
            left_s = ends_s - time.monotonic()
            if not failure.is_retriable or left_s <= 0:
                raise
            time.sleep(min(max(rest_ms, 1) / 1_000, left_s))
            rest_ms = max(rest_ms, 1) * 2


def _token(text: str, end_ms: int | None, extensions: Mapping[str, str], place: str) -> Token:
    if not is_token(text) or len(text) > TOKEN_CHARACTERS_MAX:
        raise _no_token(f"{place} returned a malformed token")
    return Token(OAuthBearerCredentials(token=text, extensions=extensions), end_ms)


def _no_token(reason: str) -> HttpFetchFailed:
    return HttpFetchFailed(reason, is_retriable=False)


def _jaas_options(settings: "ClientSettings") -> Mapping[str, str]:
    if settings.sasl_jaas_config is None:
        return {}
    login = read_jaas(settings.sasl_jaas_config.reveal())
    if login.module != _MODULE:
        raise InvalidSetting(f"sasl.jaas.config must be for {_MODULE}, not {login.module}")
    return login.options


def _client_credentials(
    settings: "ClientSettings", options: Mapping[str, str]
) -> ClientCredentials:
    """Kafka's settings win over librdkafka's, and those over the JAAS options."""
    secret = (
        settings.sasl_oauthbearer_client_credentials_client_secret
        or settings.sasl_oauthbearer_client_secret
    )
    credentials = ClientCredentials(
        client_id=(
            settings.sasl_oauthbearer_client_credentials_client_id
            or settings.sasl_oauthbearer_client_id
            or options.get("clientId", "")
        ),
        secret=secret.reveal() if secret is not None else options.get("clientSecret", ""),
        scope=settings.sasl_oauthbearer_scope or options.get("scope"),
    )
    if not credentials.client_id or not credentials.secret:
        raise InvalidSetting(
            f"{_URL} requires sasl.oauthbearer.client.credentials.client.id and "
            "sasl.oauthbearer.client.credentials.client.secret"
        )
    return credentials


def _extensions(settings: "ClientSettings", options: Mapping[str, str]) -> Mapping[str, str]:
    found = {
        name.removeprefix(_EXTENSION): value
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    }
    for pair in settings.sasl_oauthbearer_extensions:
        name, _, value = pair.partition("=")
        found[name] = value
    for name, value in found.items():
        if not is_extension(name, value):
            raise InvalidSetting("an OAUTHBEARER extension must be name=value, with letters only")
    return found
