"""Clients are kept between tasks, up to a limit, and not beyond a failure."""

from collections.abc import Mapping

from headwater.spark.client_cache import ClientCache


class FakeClient:
    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def settings(number: int) -> dict[str, str]:
    return {"bootstrap.servers": f"host:{number}"}


def test_a_task_gets_the_client_of_an_earlier_one_with_the_same_settings() -> None:
    kept = ClientCache(FakeClient)
    first = kept.get(settings(1))
    assert kept.get({**settings(1)}) is first
    assert kept.get(settings(2)) is not first


def test_the_client_that_was_used_longest_ago_makes_room() -> None:
    kept = ClientCache(FakeClient, limit=2)
    first, second = kept.get(settings(1)), kept.get(settings(2))
    kept.get(settings(1))
    kept.get(settings(3))
    assert (first.is_closed, second.is_closed) == (False, True)
    assert kept.get(settings(1)) is first


def test_a_client_that_failed_is_closed_and_not_used_again() -> None:
    kept = ClientCache(FakeClient)
    first = kept.get(settings(1))
    kept.drop(settings(1))
    kept.drop(settings(1))
    assert first.is_closed
    assert kept.get(settings(1)) is not first
