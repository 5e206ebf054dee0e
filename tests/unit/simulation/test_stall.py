"""A process that does not run for a while."""

from tests.simulation.fakes.stall import Stall


def test_events_during_a_stall_are_delivered_afterwards_in_order() -> None:
    delivered: list[int] = []
    stall = Stall()
    stall.pass_on(lambda: delivered.append(1))
    stall.begin()
    stall.pass_on(lambda: delivered.append(2))
    stall.pass_on(lambda: delivered.append(3))
    assert delivered == [1]
    stall.end()
    stall.pass_on(lambda: delivered.append(4))
    assert delivered == [1, 2, 3, 4]


def test_events_caused_during_delivery_follow_the_waiting_ones() -> None:
    delivered: list[str] = []
    stall = Stall()
    stall.begin()
    stall.pass_on(lambda: stall.pass_on(lambda: delivered.append("caused")))
    stall.pass_on(lambda: delivered.append("waited"))
    stall.end()
    assert delivered == ["waited", "caused"]


def test_a_second_stall_during_delivery_defers_the_rest() -> None:
    delivered: list[int] = []
    stall = Stall()
    stall.begin()
    stall.pass_on(stall.begin)
    stall.pass_on(lambda: delivered.append(1))
    stall.end()
    assert not delivered
    stall.end()
    assert delivered == [1]


def test_a_stopped_process_receives_nothing() -> None:
    delivered: list[int] = []
    stall = Stall()
    stall.begin()
    stall.pass_on(stall.forget)
    stall.pass_on(lambda: delivered.append(1))
    stall.end()
    assert not delivered
