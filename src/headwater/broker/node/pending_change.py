"""Answer metadata changes once they are committed to the metadata store.

Note: a request that times out before the store has committed its change gets REQUEST_TIMED_OUT, but
the change may still be committed; the client has to check. A request with a timeout of zero or less
is not even evaluated. Kafka 4.1 does both.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.controller_result import ControllerResult
from headwater.protocol.older_versions import Message

R = TypeVar("R")

_TIMED_OUT = ApiError(ErrorCode.REQUEST_TIMED_OUT, None)


def submit(
    broker: ControllerContext,
    call: Call,
    decide: Callable[[ClusterImage], ControllerResult[R]],
    *,
    respond: Callable[[R], Message],
    error_response: Callable[[ApiError], Message],
    timeout_ms: int | None = None,
) -> None:
    """Submit a change to the controller and answer with its result.

    `respond` or `error_response` builds the response.
    """
    pending = _PendingChange(broker, call, respond, error_response)
    if timeout_ms is not None and timeout_ms <= 0:
        pending.fail(_TIMED_OUT)
        return
    broker.controller.submit(decide, then=pending.committed, on_error=pending.failed)
    if timeout_ms is not None and not pending.is_done:
        pending.start_timer(timeout_ms)


class _PendingChange(Generic[R]):
    """A request whose change is not committed yet."""

    __slots__ = ("_broker", "_call", "_error_response", "_has_deadline", "_respond", "is_done")

    def __init__(
        self,
        broker: ControllerContext,
        call: Call,
        respond: Callable[[R], Message],
        error_response: Callable[[ApiError], Message],
    ) -> None:
        self._broker = broker
        self._call = call
        self._respond = respond
        self._error_response = error_response
        self._has_deadline = False
        self.is_done = False

    @property
    def is_disconnected(self) -> bool:
        return self._call.is_disconnected

    def start_timer(self, timeout_ms: int) -> None:
        self._has_deadline = True
        self._broker.timer.add(self._broker.clock.steady_ms() + timeout_ms, self)

    def committed(self, answer: R) -> None:
        if not self.is_done:
            self._answer(self._respond(answer))

    def failed(self, error: HeadwaterError) -> None:
        if not self.is_done:
            self.fail(ApiError(error.code, str(error)))

    def expire(self) -> None:
        self.fail(_TIMED_OUT)

    def fail(self, error: ApiError) -> None:
        self._call.record_error(error.code)
        self._answer(self._error_response(error))

    def _answer(self, response: Message) -> None:
        self.is_done = True
        if self._has_deadline:
            self._broker.timer.completed()
        self._call.answer(response)
