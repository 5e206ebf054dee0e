"""Renewal of a client's OAuth token, and failures of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from headwater.client.network.oauth_token_cache import OAuthTokenCache
from headwater.client.network.oauth_token_source import Token
from headwater.common.exceptions import AuthenticationFailed, HttpFetchFailed
from headwater.security.authentication.oauth_bearer import OAuthBearerCredentials
from tests.simulation.labs.broker_lab import ScriptedClock


@dataclass
class Lab:
    """A token source that the test controls."""

    clock: ScriptedClock = field(default_factory=ScriptedClock)
    under_way: list[tuple[Callable[[Any], None], Callable[[BaseException], None]]] = field(
        default_factory=list
    )
    got: list[str] = field(default_factory=list)
    refused: list[AuthenticationFailed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.zk_client = OAuthTokenCache(lambda: token("never", 0), self.clock, self._purpose)

    def _purpose(
        self,
        job: Callable[[], Any],  # noqa: ARG002
        *,
        then: Callable[[Any], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        assert not self.under_way
        self.under_way.append((then, on_error))

    def ask(self) -> None:
        self.zk_client.get_token(lambda found: self.got.append(found.token), self.refused.append)

    def give(self, name: str, lifetime_ms: int | None) -> None:
        end_ms = None if lifetime_ms is None else self.clock.now_ms() + lifetime_ms
        self.under_way.pop()[0](token(name, end_ms))

    def fail(self, error: BaseException | None = None) -> None:
        self.under_way.pop()[1](error or HttpFetchFailed("the issuer is away", is_retriable=True))


def token(name: str, end_ms: int | None) -> Token:
    return Token(OAuthBearerCredentials(token=name), end_ms)


def test_connections_share_a_token_and_one_fetch() -> None:
    lab = Lab()
    lab.ask()
    lab.ask()
    lab.give("a", 10_000)
    lab.ask()
    assert lab.got == ["a"] * 3
    assert not lab.under_way


def test_a_token_is_renewed_before_it_expires() -> None:
    lab = Lab()
    lab.ask()
    lab.give("a", 10_000)
    lab.clock.move(7_999)
    lab.ask()
    assert lab.got == ["a", "a"]
    lab.clock.move(1)
    lab.ask()
    lab.give("b", 10_000)
    assert lab.got == ["a", "a", "b"]


def test_a_token_without_an_expiry_is_used_once() -> None:
    lab = Lab()
    lab.ask()
    lab.give("a", None)
    lab.ask()
    lab.give("b", None)
    assert lab.got == ["a", "b"]


def test_the_old_token_is_used_while_valid_if_the_renewal_fails() -> None:
    lab = Lab()
    lab.ask()
    lab.give("a", 10_000)
    lab.clock.move(9_000)
    lab.ask()
    lab.fail()
    assert lab.got == ["a", "a"]
    lab.clock.move(1_000)
    lab.ask()
    lab.fail()
    assert lab.got == ["a", "a"]
    (refused,) = lab.refused
    assert str(refused) == "no OAuth token: the issuer is away"


def test_after_a_failure_the_next_authentication_retries() -> None:
    lab = Lab()
    lab.ask()
    lab.fail()
    lab.ask()
    lab.give("a", 10_000)
    assert (len(lab.refused), lab.got) == (1, ["a"])


def test_an_exception_of_oauth_cb_is_reported_by_type_only() -> None:
    lab = Lab()
    lab.ask()
    lab.fail(ValueError("password=s3cret"))
    (refused,) = lab.refused
    assert str(refused) == "no OAuth token: oauth_cb raised ValueError"


def test_no_repr_shows_a_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    lab = Lab()
    lab.ask()
    lab.give("s3cret", 10_000)
    assert "s3cret" not in repr(token("s3cret", 1))
    assert "s3cret" not in caplog.text
