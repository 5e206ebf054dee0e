"""Requests that reach the dispatch without a network connection of their own.

These are requests of this broker to itself, and requests in an Envelope from another broker. They
are served like any other and their response may come later, but they hold up no other request.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from headwater.common.principal import Requester
from headwater.network.request_service import ClientAddress, ResponseSlot

INTERNAL_LISTENER: Final = "headwater"
"""Listener name of internal requests. It cannot be configured: listener names are upper case."""

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
        is_disconnected: Callable[[], bool],
        cut: Callable[[], None],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """Set the callbacks.

        `answered` gets the response without its size field; `cut` is called instead if the call is
        cut.
        """
        self.address = address
        self.requester = requester
        self._answered = answered
        self._is_gone = is_disconnected
        self._cut = cut
        self._soon = call_soon
        self._is_cut = False

    @property
    def is_closed(self) -> bool:
        return self._is_cut or self._is_gone()

    def mute(self, until_ms: int) -> None:
        """Ignored: the connection that received the request is muted instead."""

    def unmute(self, now_ms: int) -> None:
        """Ignored, like `mute`."""

    def close(self) -> None:
        if not self._is_cut:
            self._is_cut = True
            self._cut()

    def on_response(self, slot: ResponseSlot) -> None:
        if not self._is_cut:
            parts = slot.parts or ()
            assert all(isinstance(part, Content) for part in parts), (
                "internal requests have no file ranges"
            )
            # The first four bytes are the size field.
            self._answered(b"".join(part for part in parts if isinstance(part, Content))[4:])

    def on_hold(self, slot: ResponseSlot) -> None:
        """Ignored: no later request waits behind this one."""

    def on_steps(self, slot: ResponseSlot, steps: Iterator[None], size_bytes: int) -> None:
        """Run one step per iteration of the loop."""
        if not self.is_closed and next(steps, _DONE) is not _DONE:
            self._soon(partial(self.on_steps, slot, steps, size_bytes))
