"""A request that reaches this broker's dispatch from within, and not by a connection of its own.

Two come so: what this broker asks of itself, and what another broker has put into an envelope.
What a reader would get wrong: the request is served like any other, and so its answer may come
later; but it holds up nobody, since nothing comes behind it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from headwater.common.principal import Requester
from headwater.network.request_service import ClientAddress, ReplySlot

WITHIN: Final = "headwater"
"""The name that stands for a listener where there is none. No setting can say it: names are upper
case there."""

_DONE: Final = object()

Content = bytes | bytearray | memoryview


class InternalConnection:
    """`headwater.network.request_service.ServedConnection` for one request."""

    def __init__(
        self,
        address: ClientAddress,
        requester: Requester,
        *,
        answered: Callable[[bytes], None],
        is_gone: Callable[[], bool],
        cut: Callable[[], None],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """`answered` gets the response without its size field; `cut` is told instead of it."""
        self.address = address
        self.requester = requester
        self._answered = answered
        self._is_gone = is_gone
        self._cut = cut
        self._soon = soon
        self._is_cut = False

    @property
    def is_closed(self) -> bool:
        return self._is_cut or self._is_gone()

    def mute(self, until_ms: int) -> None:
        """Whoever is to be slowed down is slowed down where the request came in."""

    def unmute(self, now_ms: int) -> None:
        """It never was."""

    def close(self) -> None:
        if not self._is_cut:
            self._is_cut = True
            self._cut()

    def note_answer(self, slot: ReplySlot) -> None:
        if not self._is_cut:
            parts = slot.parts or ()
            assert all(isinstance(part, Content) for part in parts), "nobody fetches from within"
            # The first four bytes are the size.
            self._answered(b"".join(part for part in parts if isinstance(part, Content))[4:])

    def note_hold(self, slot: ReplySlot) -> None:
        """Nothing comes behind it."""

    def note_steps(self, slot: ReplySlot, steps: Iterator[None], size_bytes: int) -> None:
        """One step for each turn of the loop."""
        if not self.is_closed and next(steps, _DONE) is not _DONE:
            self._soon(partial(self.note_steps, slot, steps, size_bytes))
