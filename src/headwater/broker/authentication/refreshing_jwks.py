"""The keys of an issuer of tokens, kept fresh: looked up now and then, and when one is missing.

What a reader would get wrong: a token with an unknown key makes its login wait for a lookup, since
issuers change keys and clients do not come back by themselves. Anybody can name unknown keys, so
that happens once in a while only; whoever comes in between is refused with what is known. When a
lookup fails, the keys from before hold.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headwater.common.exceptions import HeadwaterError, SaslRefused
from headwater.common.ports import Clock
from headwater.network.background_calls import BackgroundCalls
from headwater.replication.purgatory.timer import Timer, WakeupTimer
from headwater.security.authentication.json_web_key_set import JsonWebKeySet

_log = logging.getLogger(__name__)

_BETWEEN_ASKED_MS: Final = 10_000
"""How often unknown keys may cause a lookup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySource:
    """Where keys come from. `read` blocks, and raises `HeadwaterError`."""

    place: str
    read: Callable[[], JsonWebKeySet]
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int


class RefreshingJwks:
    """For the loop's thread."""

    def __init__(
        self,
        source: KeySource,
        *,
        known: JsonWebKeySet | None,
        clock: Clock,
        timer: Timer,
        background_calls: BackgroundCalls,
    ) -> None:
        """`known` are keys that were read just now; without them it begins with a lookup."""
        self._source = source
        self._clock = clock
        self._background_calls = background_calls
        self._known = known
        self._alarm = WakeupTimer(timer, self._rung)
        self._due_ms = 0
        self._asked_ms: int | None = None
        self._failures = 0
        self._is_looking = False
        self._waiting: list[Callable[[], None]] = []
        if known is None:
            self._look()
        else:
            self._plan(source.refresh_ms)

    @property
    def known(self) -> JsonWebKeySet:
        """What was last found; `SaslRefused` as long as nothing was."""
        if self._known is None:
            raise SaslRefused(f"the keys of {self._source.place} are not known yet")
        return self._known

    def prepare(self, key_id: str | None, then: Callable[[], None]) -> None:
        """Call back when a token with that key can be judged: now, or after a lookup."""
        if self._known is not None and self._known.has(key_id):
            then()
            return
        now_ms = self._clock.steady_ms()
        if not self._is_looking:
            if self._asked_ms is not None and now_ms - self._asked_ms < _BETWEEN_ASKED_MS:
                then()
                return
            self._asked_ms = now_ms
        self._waiting.append(then)
        self._look()

    def _look(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._background_calls(self._source.read, then=self._found, otherwise=self._missed)

    def _found(self, keys: JsonWebKeySet) -> None:
        if keys != self._known:
            _log.info("%s: %d keys for tokens", self._source.place, len(keys.keys))
        self._known = keys
        self._failures = 0
        self._plan(self._source.refresh_ms)
        self._looked()

    def _missed(self, error: BaseException) -> None:
        if not isinstance(error, HeadwaterError):
            raise error
        self._failures += 1
        source = self._source
        # The exponent is bounded too: years of failures would make a huge number.
        rest_ms = source.backoff_ms * 2 ** min(self._failures - 1, 32)
        _log.warning("the keys for tokens cannot be looked up: %s", error)
        self._plan(min(rest_ms, source.backoff_max_ms))
        self._looked()

    def _looked(self) -> None:
        self._is_looking = False
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    def _plan(self, delay_ms: int) -> None:
        self._due_ms = self._clock.steady_ms() + delay_ms
        self._alarm.set(self._due_ms)

    def _rung(self) -> None:
        # All alarms ring when the broker stops, and nothing is to begin then.
        if self._clock.steady_ms() >= self._due_ms:
            self._look()
