"""What the runtime hosts: one partition of an internal topic, as a state machine.

Groups have such a shard, transactions another. What a reader would get wrong: a shard never hears
whether an append succeeded. What was written is replayed, what was not is not, and that is all.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from headwater.common.ids import ProducerId
from headwater.coordinator.runtime.coordinator_effects import (
    Asked,
    Effect,
    Loaded,
    StateRecord,
    TimerFired,
)

Told = TypeVar("Told", contravariant=True)
"""What a shard hears besides requests and timers, from the rest of the broker."""


class CoordinatorShard(Protocol[Told]):
    """See `headwater.coordinator.runtime.coordinator_effects` for the rules of the game."""

    def decide(self, event: Asked | TimerFired | Loaded | Told) -> Sequence[Effect]: ...

    def replay(self, record: StateRecord, *, offset: int, producer_id: ProducerId | None) -> None:
        """A record that stands at an offset of the log, in a producer's transaction or in none."""

    def end_transaction(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """A marker that stands in the log: a fact like a record, and replayed like one."""
