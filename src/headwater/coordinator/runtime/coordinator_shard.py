"""Interface of a coordinator shard: a partition as a state machine.

Implemented for groups and for transactions.

Note: a shard is not told whether an append succeeded. What was appended is replayed, nothing else.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from headwater.common.ids import ProducerId
from headwater.coordinator.runtime.coordinator_effects import (
    Effect,
    Loaded,
    RequestEvent,
    StateRecord,
    TimerFired,
)

ExternalEvent = TypeVar("ExternalEvent", contravariant=True)
"""Events of a shard besides requests and timers."""


class CoordinatorShard(Protocol[ExternalEvent]):
    """See `headwater.coordinator.runtime.coordinator_effects` for the rules."""

    def decide(
        self, event: RequestEvent | TimerFired | Loaded | ExternalEvent
    ) -> Sequence[Effect]: ...

    def replay(self, record: StateRecord, *, offset: int, producer_id: ProducerId | None) -> None:
        """Apply a record of the log; `producer_id` if it is part of a transaction."""

    def end_transaction(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Apply a transaction marker of the log, live or while loading."""
