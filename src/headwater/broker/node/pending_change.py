"""Answer metadata changes once they are committed to the metadata store.

Note: a request that times out before the store has committed its change gets REQUEST_TIMED_OUT, but
the change may still be committed; the client has to check. A request with a timeout of zero or less
is not even evaluated. Kafka 4.1 does both.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.controller_result import ApiError, ControllerResult
from headwater.protocol.older_versions import Message

R = TypeVar("R")

_LATE = ApiError(ErrorCode.REQUEST_TIMED_OUT, None)


def submit(
    broker: Broker,
    call: Call,
    decide: Callable[[ClusterImage], ControllerResult[R]],
    *,
    respond: Callable[[R], Message],
    refuse: Callable[[ApiError], Message],
    timeout_ms: int | None = None,
) -> None:
    """Submit a change to the controller; `respond` or `refuse` builds the response."""
    waiting = _Undecided(broker, call, respond, refuse)
    if timeout_ms is not None and timeout_ms <= 0:
        waiting.refuse(_LATE)
        return
    broker.controller.submit(decide, then=waiting.agreed, otherwise=waiting.failed)
    if timeout_ms is not None and not waiting.is_done:
        waiting.wait(timeout_ms)


class _Undecided(Generic[R]):
    """A request whose change is not committed yet."""

    __slots__ = ("_broker", "_call", "_has_deadline", "_refuse", "_respond", "is_done")

    def __init__(
        self,
        broker: Broker,
        call: Call,
        respond: Callable[[R], Message],
        refuse: Callable[[ApiError], Message],
    ) -> None:
        self._broker = broker
        self._call = call
        self._respond = respond
        self._refuse = refuse
        self._has_deadline = False
        self.is_done = False

    @property
    def is_gone(self) -> bool:
        return self._call.is_gone

    def wait(self, timeout_ms: int) -> None:
        self._has_deadline = True
        self._broker.timer.add(self._broker.clock.steady_ms() + timeout_ms, self)

    def agreed(self, answer: R) -> None:
        if not self.is_done:
            self._answer(self._respond(answer))

    def failed(self, error: HeadwaterError) -> None:
        if not self.is_done:
            self.refuse(ApiError(error.code, str(error)))

    def expire(self) -> None:
        self.refuse(_LATE)

    def refuse(self, refusal: ApiError) -> None:
        self._call.note_error(refusal.code)
        self._answer(self._refuse(refusal))

    def _answer(self, response: Message) -> None:
        self.is_done = True
        if self._has_deadline:
            self._broker.timer.ended()
        self._call.answer(response)
