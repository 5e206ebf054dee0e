"""The token of a client, shared by its connections and fetched anew before it runs out.

For the loop's thread; whoever gives tokens out is asked in another one, once at a time. What a
reader would get wrong: nothing is fetched by a timer. A login asks, the first or one that is
renewed, and brokers end logins no later than their tokens; so a client that needs none asks for
none. When no new one is to be had, the one that is there serves as long as it holds.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.client.settings import ClientSettings, login_of
from headwater.common.exceptions import HeadwaterError, LoginRefused
from headwater.common.ports import Clock
from headwater.network.background_calls import BackgroundCalls, run_in_thread

if TYPE_CHECKING:
    from headwater.client.network.oauth_token_source import Token
    from headwater.security.authentication.oauth_bearer import OAuthBearerCredentials

_log = logging.getLogger(__name__)

# Of its life; Kafka's `sasl.login.refresh.window.factor`. Logins are renewed later than this.
_FRESH: Final = 0.8

Then = Callable[["OAuthBearerCredentials"], None]
Otherwise = Callable[[LoginRefused], None]


class OAuthTokenCache:
    """See the module."""

    def __init__(
        self,
        obtain: "Callable[[], Token]",
        clock: Clock,
        background_calls: BackgroundCalls = run_in_thread,
    ) -> None:
        """`obtain` blocks."""
        self._obtain = obtain
        self._clock = clock
        self._background_calls = background_calls
        self._token: Token | None = None
        # By wall time, as tokens have it.
        self._fresh_until_ms = 0
        self._waiting: list[tuple[Then, Otherwise]] = []

    def ask(self, then: Then, otherwise: Otherwise) -> None:
        """One of the two is called, now or later."""
        if self._token is not None and self._clock.now_ms() < self._fresh_until_ms:
            then(self._token.credentials)
            return
        self._waiting.append((then, otherwise))
        if len(self._waiting) == 1:
            self._background_calls(self._obtain, then=self._obtained, otherwise=self._failed)

    def _obtained(self, token: "Token") -> None:
        now_ms = self._clock.now_ms()
        self._token = token
        self._fresh_until_ms = 0
        if token.expires_ms is not None:
            self._fresh_until_ms = now_ms + int((token.expires_ms - now_ms) * _FRESH)
        self._tell(token)

    def _failed(self, error: BaseException) -> None:
        # What code of others raises may tell secrets, so only its kind is told.
        known = isinstance(error, HeadwaterError)
        reason = str(error) if known else f"oauth_cb raised {type(error).__name__}"
        token = self._token
        if token is not None and (token.expires_ms or 0) > self._clock.now_ms():
            _log.warning("no new token, the one from before is used: %s", reason)
            self._tell(token)
            return
        waiting, self._waiting = self._waiting, []
        for _, otherwise in waiting:
            otherwise(LoginRefused(f"no token to log in with: {reason}"))

    def _tell(self, token: "Token") -> None:
        waiting, self._waiting = self._waiting, []
        for then, _ in waiting:
            then(token.credentials)


def tokens_of(settings: ClientSettings, clock: Clock) -> OAuthTokenCache | None:
    """The tokens of a client that logs in with such; None for all others."""
    if (settings.sasl_mechanism or settings.sasl_mechanisms) != "OAUTHBEARER":
        return None
    from headwater.client.network.oauth_token_source import TokenSource

    source = login_of(settings)
    return OAuthTokenCache(source.obtain, clock) if isinstance(source, TokenSource) else None
