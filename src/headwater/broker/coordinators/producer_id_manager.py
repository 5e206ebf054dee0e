"""Allocate producer ids from blocks of the controller (ProducerIdManager).

As in Kafka, the next block is requested when few ids are left. While there are none, requests wait
in a queue and are answered together.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import ProducerId
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse

OnGenerated = Callable[[ProducerId | ErrorCode], None]

# The controller is unknown, or does not know this broker yet. Clients retry on the error that
# replaces these, as in Kafka 3.9.
_NOT_YET: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
    }
)

LOW: Final = 100
"""With fewer ids left than this, the next block is requested."""


class Allocate(Protocol):
    """Requests the next block from the controller."""

    def __call__(
        self, *, then: Callable[[AllocateProducerIdsResponse], None], on_error: Failed
    ) -> None: ...


class ProducerIdManager:
    """Allocates ids that are unique in the cluster."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate = allocate
        # The current block and the next one.
        self._ids: deque[range] = deque()
        self._is_requesting = False
        self._waiting: deque[OnGenerated] = deque()

    def generate(self, on_generated: OnGenerated) -> None:
        """Allocate one id, possibly later."""
        if self._ids:
            on_generated(self._one())
        else:
            self._waiting.append(on_generated)
        self.prepare()

    def prepare(self) -> None:
        """Request a block early: the controller may be unavailable when it is needed."""
        if sum(map(len, self._ids)) < LOW and not self._is_requesting:
            self._is_requesting = True
            self._allocate(then=self._allocated, on_error=self._failed)

    def _one(self) -> ProducerId:
        first = self._ids.popleft()
        if len(first) > 1:
            self._ids.appendleft(first[1:])
        return ProducerId(first[0])

    def _allocated(self, response: AllocateProducerIdsResponse) -> None:
        self._is_requesting = False
        if response.error_code:
            self._fail_all(response.error_code)
            return
        start = response.producer_id_start
        self._ids.append(range(start, start + response.producer_id_len))
        while self._waiting and self._ids:
            self._waiting.popleft()(self._one())
        if self._waiting:
            self.prepare()

    def _failed(self, error: HeadwaterError) -> None:
        self._is_requesting = False
        self._fail_all(error.code)

    def _fail_all(self, code: ErrorCode) -> None:
        client_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if code in _NOT_YET else code
        waiting, self._waiting = self._waiting, deque()
        for taken in waiting:
            taken(client_code)
