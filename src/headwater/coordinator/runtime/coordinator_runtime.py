"""The shards of one internal topic on this broker.

A broker coordinates the partitions of the topic that it leads.

Note: a new shard is queued first. `load_some`, called periodically, loads a few at a time, but a
shard that a request needs is loaded at once. An empty log loads immediately, so the first request
of a new group succeeds.
"""

from collections.abc import Callable
from typing import Final, Generic

from headwater.common.error_codes import ErrorCode
from headwater.common.latency_histogram import LatencyHistogram
from headwater.coordinator.runtime.coordinator_context import (
    CoordinatorContext,
    CoordinatorServices,
    ExternalEvent,
)
from headwater.coordinator.runtime.coordinator_log import CoordinatorLog
from headwater.coordinator.runtime.pending_responses import Answer
from headwater.protocol.older_versions import Message

_LOADS_AT_ONCE: Final = 2


class CoordinatorRuntime(Generic[ExternalEvent]):
    """Used on the event loop's thread only."""

    def __init__(self, services: CoordinatorServices[ExternalEvent]) -> None:
        self._services = services
        self._shards: dict[int, CoordinatorContext[ExternalEvent]] = {}
        self._queued: dict[int, None] = {}
        self._loading = 0
        self._is_filling = False

    @property
    def load_times(self) -> LatencyHistogram:
        return self._services.load_times

    @property
    def is_loading(self) -> bool:
        """Whether some shards are not loaded yet."""
        return bool(self._queued) or self._loading > 0

    def lead(self, number: int, open_log: Callable[[], CoordinatorLog]) -> None:
        """This broker became leader of a partition, or leads it in a new epoch."""
        self.resign(number)
        self._shards[number] = CoordinatorContext(
            number, open_log, self._services, load_ended=self._load_ended
        )
        self._queued[number] = None

    def load_some(self, limit_ms: int) -> None:
        """Load queued shards for about `limit_ms`, a few at a time."""
        clock = self._services.clock
        until_ms = clock.steady_ms() + limit_ms
        self._is_filling = True
        try:
            while self._queued and self._loading < _LOADS_AT_ONCE:
                self._load(next(iter(self._queued)))
                if clock.steady_ms() >= until_ms:
                    return
        finally:
            self._is_filling = False

    def resign(self, number: int) -> None:
        """This broker does not lead a partition any more, or lost its log."""
        shard = self._shards.pop(number, None)
        if shard is not None:
            self._queued.pop(number, None)
            shard.close()

    def shards(self) -> list[CoordinatorContext[ExternalEvent]]:
        """Return all shards by partition number."""
        return [self._shards[number] for number in sorted(self._shards)]

    def find(self, number: int) -> CoordinatorContext[ExternalEvent] | None:
        """Return a shard for a request; if it is queued, start loading it."""
        shard = self._shards.get(number)
        if number in self._queued:
            self._load(number)
        return shard

    def handle_request(
        self,
        number: int,
        request: Message,
        *,
        version: int,
        client_id: str,
        client_host: str,
        answer: Answer,
    ) -> None:
        """Process a request in a partition's shard; NOT_COORDINATOR if it is not here."""
        shard = self.find(number)
        if shard is None:
            answer(ErrorCode.NOT_COORDINATOR)
            return
        shard.handle_request(
            request, version=version, client_id=client_id, client_host=client_host, answer=answer
        )

    def handle_event(self, event: ExternalEvent) -> None:
        """Pass an event to all shards."""
        for shard in self.shards():
            shard.handle_event(event)

    def close(self) -> None:
        """The broker stops: pending requests fail."""
        for number in list(self._shards):
            self.resign(number)

    def _load(self, number: int) -> None:
        self._queued.pop(number, None)
        self._loading += 1
        self._shards[number].load()

    def _load_ended(self) -> None:
        self._loading -= 1
        if not self._is_filling:
            self.load_some(0)
