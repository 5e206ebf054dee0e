"""Responses of many connections are sent by one callback of the loop."""

from collections.abc import Callable
from functools import partial

from headwater.network.response_batching import ResponseBatching


class CountingLoop:
    """Records `call_soon` callbacks; descriptors are not watched here."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None], /) -> None:
        self.soon.append(callback)

    def add_reader(self, fd: int, callback: Callable[[], None], /) -> None: ...

    def remove_reader(self, fd: int, /) -> bool:
        return bool(fd)

    def add_writer(self, fd: int, callback: Callable[[], None], /) -> None: ...

    def remove_writer(self, fd: int, /) -> bool:
        return bool(fd)

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


def test_all_of_one_iteration_are_called_in_order_by_one_callback() -> None:
    loop, left = CountingLoop(), list[int]()
    response_batching = ResponseBatching(loop)
    for number in range(3):
        response_batching.add(partial(left.append, number))
    assert len(loop.soon) == 1
    assert left == []
    loop.turn()
    assert left == [0, 1, 2]


def test_connection_added_while_others_are_called_waits_for_the_next_iteration() -> None:
    loop, left = CountingLoop(), list[str]()
    response_batching = ResponseBatching(loop)

    def leave_and_return() -> None:
        left.append("first")
        response_batching.add(lambda: left.append("second"))

    response_batching.add(leave_and_return)
    loop.turn()
    assert left == ["first"]
    loop.turn()
    assert left == ["first", "second"]
