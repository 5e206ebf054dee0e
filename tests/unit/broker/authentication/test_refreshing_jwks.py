"""Refreshing of key sets: when it happens, and which authentications wait for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from headwater.broker.authentication.refreshing_jwks import KeySource, RefreshingJwks
from headwater.common.exceptions import HttpFetchFailed, SaslAuthenticationFailed
from headwater.replication.purgatory.timer import Timer
from headwater.security.authentication.json_web_key_set import JsonWebKey, JsonWebKeySet
from tests.simulation.labs.broker_lab import ScriptedClock

REFRESH_MS, BACKOFF_MS, BACKOFF_MAX_MS = 60_000, 100, 400


def keys(*names: str) -> JsonWebKeySet:
    return JsonWebKeySet(
        tuple(JsonWebKey(key_id=each, algorithms=("RS256",), key=each) for each in names)
    )


@dataclass
class Lab:
    """An issuer whose responses the test gives, and a clock that it moves."""

    known: JsonWebKeySet | None = None
    clock: ScriptedClock = field(default_factory=ScriptedClock)
    timer: Timer = field(default_factory=Timer)
    # Refreshes in progress; never more than one.
    under_way: list[tuple[Callable[[Any], None], Callable[[BaseException], None]]] = field(
        default_factory=list
    )
    called: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        source = KeySource(
            location="http://keys",
            read=lambda: keys(),
            refresh_ms=REFRESH_MS,
            backoff_ms=BACKOFF_MS,
            backoff_max_ms=BACKOFF_MAX_MS,
        )
        self.keys = RefreshingJwks(
            source,
            known=self.known,
            clock=self.clock,
            timer=self.timer,
            background_calls=self._purpose,
        )

    def _purpose(
        self,
        job: Callable[[], Any],  # noqa: ARG002
        *,
        then: Callable[[Any], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        assert not self.under_way
        self.under_way.append((then, on_error))

    def find(self, *names: str) -> None:
        self.under_way.pop()[0](keys(*names))

    def fail(self) -> None:
        self.under_way.pop()[1](HttpFetchFailed("http://keys does not answer", is_retriable=True))

    def pass_time(self, duration_ms: int) -> None:
        self.clock.move(duration_ms)
        self.timer.expire(self.clock.steady_ms())

    def prepare(self, key_id: str | None, name: str = "a login") -> None:
        self.keys.prepare(key_id, lambda: self.called.append(name))


def test_authentications_wait_for_the_first_refresh() -> None:
    lab = Lab()
    assert lab.under_way
    lab.prepare("k1", "first")
    lab.prepare(None, "second")
    assert lab.called == []
    with pytest.raises(SaslAuthenticationFailed, match="not loaded yet"):
        _ = lab.keys.known
    lab.find("k1")
    assert lab.called == ["first", "second"]
    assert lab.keys.known == keys("k1")


def test_known_key_or_no_key_id_does_not_wait() -> None:
    lab = Lab(keys("k1"))
    assert not lab.under_way
    lab.prepare("k1")
    lab.prepare(None)
    assert lab.called == ["a login"] * 2
    assert not lab.under_way


def test_key_set_is_refreshed_periodically() -> None:
    lab = Lab(keys("k1"))
    lab.pass_time(REFRESH_MS - 1)
    assert not lab.under_way
    lab.pass_time(1)
    lab.find("k2")
    # Removed keys are no longer valid.
    assert lab.keys.known == keys("k2")
    lab.pass_time(REFRESH_MS)
    assert lab.under_way


def test_unknown_key_causes_one_refresh_for_all_waiting() -> None:
    lab = Lab(keys("k1"))
    lab.prepare("k2", "first")
    lab.prepare("k2", "second")
    assert lab.called == []
    lab.find("k1", "k2")
    assert lab.called == ["first", "second"]


def test_refreshes_for_unknown_keys_are_rate_limited() -> None:
    lab = Lab(keys("k1"))
    lab.prepare("x1")
    lab.find("k1")
    lab.prepare("x2")
    assert lab.called == ["a login"] * 2
    assert not lab.under_way
    lab.pass_time(10_000)
    lab.prepare("x3")
    assert lab.under_way


def test_failed_refresh_is_retried_with_backoff_and_keeps_the_old_keys() -> None:
    lab = Lab(keys("k1"))
    lab.prepare("k2")
    rests = []
    for _ in range(4):
        lab.fail()
        rest_ms = 0
        while not lab.under_way:
            lab.pass_time(50)
            rest_ms += 50
        rests.append(rest_ms)
    assert rests == [100, 200, 400, 400]
    assert lab.called == ["a login"]
    assert lab.keys.known == keys("k1")
    lab.find("k2")
    lab.pass_time(BACKOFF_MAX_MS)
    assert not lab.under_way


def test_stopping_broker_starts_no_refresh() -> None:
    lab = Lab(keys("k1"))
    lab.timer.expire_all()
    assert not lab.under_way


def test_unexpected_exception_is_not_treated_as_a_failed_refresh() -> None:
    lab = Lab()
    with pytest.raises(ZeroDivisionError):
        lab.under_way.pop()[1](ZeroDivisionError())
