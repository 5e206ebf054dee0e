"""Producer ids for this broker's clients, taken from the controller a block at a time.

While a block is on its way requests wait in a queue; they are answered together.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from headwater.cluster.store import Failed
from headwater.model.errors import ErrorCode
from headwater.model.failures import HeadwaterError
from headwater.model.ids import ProducerId
from headwater.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse

Taken = Callable[[ProducerId | ErrorCode], None]


class Allocate(Protocol):
    """Asks for the next block, of the controller wherever it is."""

    def __call__(
        self, *, then: Callable[[AllocateProducerIdsResponse], None], otherwise: Failed
    ) -> None: ...


class ProducerIdBlock:
    """Hands out ids that nobody in the cluster ever had."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._waiting: deque[Taken] = deque()

    def take(self, taken: Taken) -> None:
        """Give one id, maybe later."""
        if self._next < self._end:
            taken(self._one())
            return
        self._waiting.append(taken)
        if len(self._waiting) == 1:
            self._ask()

    def _one(self) -> ProducerId:
        self._next += 1
        return ProducerId(self._next - 1)

    def _ask(self) -> None:
        self._allocate(then=self._allocated, otherwise=self._failed)

    def _allocated(self, response: AllocateProducerIdsResponse) -> None:
        if response.error_code:
            self._refuse_all(response.error_code)
            return
        self._next = response.producer_id_start
        self._end = self._next + response.producer_id_len
        while self._waiting and self._next < self._end:
            self._waiting.popleft()(self._one())
        if self._waiting:
            self._ask()

    def _failed(self, error: HeadwaterError) -> None:
        self._refuse_all(error.code)

    def _refuse_all(self, code: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, deque()
        for taken in waiting:
            taken(code)
