"""A client's OAuth token, shared by its connections and renewed in time.

Runs on the loop's thread; the token source runs in another thread, one call at a time.

Note: no timer fetches tokens. An authentication or re-authentication asks for one, and brokers
require re-authentication before the token expires; so an idle client fetches none. If no new token
can be fetched, the current one is used while it is valid.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.client.settings import ClientSettings, login_of
from headwater.common.exceptions import AuthenticationFailed, HeadwaterError
from headwater.common.ports import Clock
from headwater.network.background_calls import BackgroundCalls, run_in_thread

if TYPE_CHECKING:
    from headwater.client.network.oauth_token_source import Token
    from headwater.security.authentication.oauth_bearer import OAuthBearerCredentials

_log = logging.getLogger(__name__)

# Share of the lifetime, as Kafka's `sasl.login.refresh.window.factor`.
_FRESH: Final = 0.8

Then = Callable[["OAuthBearerCredentials"], None]
OnError = Callable[[AuthenticationFailed], None]


class OAuthTokenCache:
    """Caches the token of one client."""

    def __init__(
        self,
        obtain: "Callable[[], Token]",
        clock: Clock,
        background_calls: BackgroundCalls = run_in_thread,
    ) -> None:
        """`obtain` blocks and runs in a background thread."""
        self._obtain = obtain
        self._clock = clock
        self._background_calls = background_calls
        self._token: Token | None = None
        # Wall-clock time, as in tokens.
        self._fresh_until_ms = 0
        self._waiting: list[tuple[Then, OnError]] = []

    def get_token(self, then: Then, on_error: OnError) -> None:
        """Call one of the two callbacks, now or later."""
        if self._token is not None and self._clock.now_ms() < self._fresh_until_ms:
            then(self._token.credentials)
            return
        self._waiting.append((then, on_error))
        if len(self._waiting) == 1:
            self._background_calls(self._obtain, then=self._obtained, on_error=self._failed)

    def _obtained(self, token: "Token") -> None:
        now_ms = self._clock.now_ms()
        self._token = token
        self._fresh_until_ms = 0
        if token.expires_ms is not None:
            self._fresh_until_ms = now_ms + int((token.expires_ms - now_ms) * _FRESH)
        self._deliver(token)

    def _failed(self, error: BaseException) -> None:
        # The message of a foreign exception may contain secrets; report only its type.
        known = isinstance(error, HeadwaterError)
        reason = str(error) if known else f"oauth_cb raised {type(error).__name__}"
        token = self._token
        if token is not None and (token.expires_ms or 0) > self._clock.now_ms():
            _log.warning("Token refresh failed, using the current token: reason=%s", reason)
            self._deliver(token)
            return
        waiting, self._waiting = self._waiting, []
        for _, on_error in waiting:
            on_error(AuthenticationFailed(f"no OAuth token: {reason}"))

    def _deliver(self, token: "Token") -> None:
        waiting, self._waiting = self._waiting, []
        for then, _ in waiting:
            then(token.credentials)


def tokens_of(settings: ClientSettings, clock: Clock) -> OAuthTokenCache | None:
    """The token cache of a client that uses OAUTHBEARER; None for other clients."""
    if (settings.sasl_mechanism or settings.sasl_mechanisms) != "OAUTHBEARER":
        return None
    from headwater.client.network.oauth_token_source import TokenSource

    source = login_of(settings)
    return OAuthTokenCache(source.obtain, clock) if isinstance(source, TokenSource) else None
