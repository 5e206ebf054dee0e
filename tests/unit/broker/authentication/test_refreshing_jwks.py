"""Keys that are kept fresh: when they are looked up, and who waits for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from headwater.broker.authentication.refreshing_jwks import KeySource, RefreshingJwks
from headwater.common.exceptions import NotFetched, SaslRefused
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
    """An issuer whose answers the test gives, and time that it moves."""

    known: JsonWebKeySet | None = None
    clock: ScriptedClock = field(default_factory=ScriptedClock)
    timer: Timer = field(default_factory=Timer)
    # Lookups under way; never more than one.
    under_way: list[tuple[Callable[[Any], None], Callable[[BaseException], None]]] = field(
        default_factory=list
    )
    called: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        source = KeySource(
            place="http://keys",
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
        otherwise: Callable[[BaseException], None],
    ) -> None:
        assert not self.under_way
        self.under_way.append((then, otherwise))

    def find(self, *names: str) -> None:
        self.under_way.pop()[0](keys(*names))

    def fail(self) -> None:
        self.under_way.pop()[1](NotFetched("http://keys does not answer", may_pass=True))

    def pass_time(self, duration_ms: int) -> None:
        self.clock.move(duration_ms)
        self.timer.expire(self.clock.steady_ms())

    def prepare(self, key_id: str | None, name: str = "a login") -> None:
        self.keys.prepare(key_id, lambda: self.called.append(name))


def test_logins_wait_for_the_first_lookup() -> None:
    lab = Lab()
    assert lab.under_way
    lab.prepare("k1", "first")
    lab.prepare(None, "second")
    assert lab.called == []
    with pytest.raises(SaslRefused, match="not loaded yet"):
        _ = lab.keys.known
    lab.find("k1")
    assert lab.called == ["first", "second"]
    assert lab.keys.known == keys("k1")


def test_who_has_a_known_key_or_names_none_does_not_wait() -> None:
    lab = Lab(keys("k1"))
    assert not lab.under_way
    lab.prepare("k1")
    lab.prepare(None)
    assert lab.called == ["a login"] * 2
    assert not lab.under_way


def test_keys_are_looked_up_again_after_their_time() -> None:
    lab = Lab(keys("k1"))
    lab.pass_time(REFRESH_MS - 1)
    assert not lab.under_way
    lab.pass_time(1)
    lab.find("k2")
    # What was taken back is not believed any more.
    assert lab.keys.known == keys("k2")
    lab.pass_time(REFRESH_MS)
    assert lab.under_way


def test_an_unknown_key_is_looked_up_once_for_all_who_ask() -> None:
    lab = Lab(keys("k1"))
    lab.prepare("k2", "first")
    lab.prepare("k2", "second")
    assert lab.called == []
    lab.find("k1", "k2")
    assert lab.called == ["first", "second"]


def test_strangers_cannot_have_keys_looked_up_again_and_again() -> None:
    lab = Lab(keys("k1"))
    lab.prepare("x1")
    lab.find("k1")
    lab.prepare("x2")
    assert lab.called == ["a login"] * 2
    assert not lab.under_way
    lab.pass_time(10_000)
    lab.prepare("x3")
    assert lab.under_way


def test_a_lookup_that_fails_is_tried_again_ever_later_and_the_old_keys_hold() -> None:
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


def test_a_broker_that_stops_begins_no_lookup() -> None:
    lab = Lab(keys("k1"))
    lab.timer.expire_all()
    assert not lab.under_way


def test_a_mistake_of_ours_is_not_taken_for_a_failure() -> None:
    lab = Lab()
    with pytest.raises(ZeroDivisionError):
        lab.under_way.pop()[1](ZeroDivisionError())
