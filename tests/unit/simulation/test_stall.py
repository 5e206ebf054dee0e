"""A process that does not run for a while."""

from tests.simulation.fakes.stall import Stall


def test_what_arrives_meanwhile_is_heard_afterwards_in_order() -> None:
    heard: list[int] = []
    stall = Stall()
    stall.pass_on(lambda: heard.append(1))
    stall.begin()
    stall.pass_on(lambda: heard.append(2))
    stall.pass_on(lambda: heard.append(3))
    assert heard == [1]
    stall.end()
    stall.pass_on(lambda: heard.append(4))
    assert heard == [1, 2, 3, 4]


def test_what_is_caused_at_once_comes_behind_what_has_waited() -> None:
    heard: list[str] = []
    stall = Stall()
    stall.begin()
    stall.pass_on(lambda: stall.pass_on(lambda: heard.append("caused")))
    stall.pass_on(lambda: heard.append("waited"))
    stall.end()
    assert heard == ["waited", "caused"]


def test_a_process_that_stalls_again_hears_the_rest_later() -> None:
    heard: list[int] = []
    stall = Stall()
    stall.begin()
    stall.pass_on(stall.begin)
    stall.pass_on(lambda: heard.append(1))
    stall.end()
    assert not heard
    stall.end()
    assert heard == [1]


def test_a_process_that_is_gone_hears_nothing() -> None:
    heard: list[int] = []
    stall = Stall()
    stall.begin()
    stall.pass_on(stall.forget)
    stall.pass_on(lambda: heard.append(1))
    stall.end()
    assert not heard
