"""A Fetch that may wait for data (DelayedFetch), of a consumer or a follower.

While it waits it is a `TimerTask` and is notified of appends to its partitions.

Note: the first read is discarded. When the fetch completes, it reads again and answers with what is
there then.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.replication.fetch.fetch_session import FetchContext
from headwater.replication.fetch.log_reads import FetchReads


class DelayedFetch(ABC):
    """One Fetch request that may wait."""

    __slots__ = (
        "_broker",
        "_call",
        "_context",
        "_is_due",
        "_min_bytes",
        "_missing_bytes",
        "is_done",
    )

    # In metrics.
    delayed_operation: ClassVar = "Fetch"

    def __init__(self, broker: Broker, call: Call, context: FetchContext, min_bytes: int) -> None:
        self._broker = broker
        self._call = call
        self._context = context
        self._min_bytes = min_bytes
        self._missing_bytes = 0
        self._is_due = False
        self.is_done = False

    @abstractmethod
    def _read(self) -> FetchReads:
        """Read what is available now."""

    @abstractmethod
    def _answer(self, reads: FetchReads) -> None: ...

    def _is_enough(self, reads: FetchReads) -> bool:
        return reads.is_final or reads.size_bytes >= self._min_bytes

    def _cannot_complete(self) -> bool:
        """Whether no data can ever arrive."""
        return False

    def _wait(self, size_bytes: int, max_wait_ms: int) -> None:
        self._missing_bytes = self._min_bytes - size_bytes
        broker = self._broker
        broker.timer.add(broker.clock.steady_ms() + max_wait_ms, self)

    def _stop_waiting(self) -> None:
        self.is_done = True
        self._broker.timer.completed()

    # Notifications while it waits.

    def more_to_read(self, size_bytes: int) -> None:
        """Read again after the loop's current callbacks, since more records may follow."""
        self._missing_bytes -= size_bytes
        if (self._missing_bytes <= 0 or not size_bytes) and not self._is_due:
            self._is_due = True
            self._broker.call_soon(self._read_again)

    @property
    def is_disconnected(self) -> bool:
        return self._call.is_disconnected

    def expire(self) -> None:
        self._stop_waiting()
        if self._call.is_disconnected:
            self._call.finish()
        else:
            self._answer(self._read())

    def _read_again(self) -> None:
        self._is_due = False
        if self.is_done:
            return
        if self._call.is_disconnected:
            self.expire()
            return
        reads = self._read()
        if self._is_enough(reads) or self._cannot_complete():
            self._stop_waiting()
            self._answer(reads)
        else:
            # The appended records are above the offset that this reader may read up to.
            self._missing_bytes = self._min_bytes - reads.size_bytes
