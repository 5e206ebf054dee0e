"""Keep the key set (JWKS) of a token issuer up to date.

The key set is refreshed periodically, and when a token names an unknown key. Such an authentication
waits for the refresh, since issuers rotate keys and clients do not retry by themselves. Any client
can name unknown keys, so this refresh is rate-limited; tokens in between are validated with the
known keys. When a refresh fails, the previous keys stay valid.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headwater.common.exceptions import HeadwaterError, SaslAuthenticationFailed
from headwater.common.ports import Clock
from headwater.network.background_calls import BackgroundCalls
from headwater.replication.purgatory.timer import Timer, WakeupTimer
from headwater.security.authentication.json_web_key_set import JsonWebKeySet

_log = logging.getLogger(__name__)

_UNKNOWN_KEY_INTERVAL_MS: Final = 10_000
"""Minimum interval between refreshes caused by unknown keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySource:
    """Where a key set comes from. `read` blocks, and raises `HeadwaterError`."""

    location: str
    read: Callable[[], JsonWebKeySet]
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int


class RefreshingJwks:
    """A key set that refreshes itself. Only for the loop's thread."""

    def __init__(
        self,
        source: KeySource,
        *,
        known: JsonWebKeySet | None,
        clock: Clock,
        timer: Timer,
        background_calls: BackgroundCalls,
    ) -> None:
        """`known` is a key set that was just read; without it a refresh starts at once."""
        self._source = source
        self._clock = clock
        self._background_calls = background_calls
        self._known = known
        self._timer_task = WakeupTimer(timer, self._timer_fired)
        self._due_ms = 0
        self._unknown_key_ms: int | None = None
        self._failures = 0
        self._is_refreshing = False
        self._waiting: list[Callable[[], None]] = []
        if known is None:
            self._refresh()
        else:
            self._schedule(source.refresh_ms)

    @property
    def known(self) -> JsonWebKeySet:
        """The last key set; raises `SaslAuthenticationFailed` if there is none yet."""
        if self._known is None:
            raise SaslAuthenticationFailed(
                f"the key set of {self._source.location} is not loaded yet"
            )
        return self._known

    def prepare(self, key_id: str | None, then: Callable[[], None]) -> None:
        """Call `then` when a token with that key can be validated, maybe after a refresh."""
        if self._known is not None and self._known.has(key_id):
            then()
            return
        now_ms = self._clock.steady_ms()
        if not self._is_refreshing:
            if (
                self._unknown_key_ms is not None
                and now_ms - self._unknown_key_ms < _UNKNOWN_KEY_INTERVAL_MS
            ):
                then()
                return
            self._unknown_key_ms = now_ms
        self._waiting.append(then)
        self._refresh()

    def _refresh(self) -> None:
        if not self._is_refreshing:
            self._is_refreshing = True
            self._background_calls(
                self._source.read, then=self._refreshed, on_error=self._refresh_failed
            )

    def _refreshed(self, keys: JsonWebKeySet) -> None:
        if keys != self._known:
            _log.info("Loaded key set: source=%s keys=%d", self._source.location, len(keys.keys))
        self._known = keys
        self._failures = 0
        self._schedule(self._source.refresh_ms)
        self._complete_refresh()

    def _refresh_failed(self, error: BaseException) -> None:
        if not isinstance(error, HeadwaterError):
            raise error
        self._failures += 1
        source = self._source
        # Bound the exponent as well: years of failures would make a huge number.
        backoff_ms = source.backoff_ms * 2 ** min(self._failures - 1, 32)
        _log.warning("Key set refresh failed: error=%s", error)
        self._schedule(min(backoff_ms, source.backoff_max_ms))
        self._complete_refresh()

    def _complete_refresh(self) -> None:
        self._is_refreshing = False
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    def _schedule(self, delay_ms: int) -> None:
        self._due_ms = self._clock.steady_ms() + delay_ms
        self._timer_task.set(self._due_ms)

    def _timer_fired(self) -> None:
        # All timers fire when the broker stops; no refresh must start then.
        if self._clock.steady_ms() >= self._due_ms:
            self._refresh()
