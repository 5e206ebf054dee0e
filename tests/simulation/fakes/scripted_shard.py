"""A scripted shard that records its events."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headwater.common.ids import ProducerId
from headwater.coordinator.runtime.coordinator_effects import (
    Effect,
    Loaded,
    RequestEvent,
    StateRecord,
    TimerFired,
)

Event = RequestEvent | TimerFired | Loaded | str
Script = Callable[[Event], Sequence[Effect]]


def nothing(_: Event) -> Sequence[Effect]:
    return ()


@dataclass(slots=True)
class ScriptedShard:
    """`CoordinatorShard`; its own events are strings."""

    leader_epoch: int = 0
    scripts: deque[Script] = field(default_factory=deque)
    events: list[Event] = field(default_factory=list)
    replayed: list[tuple[StateRecord, int, ProducerId | None]] = field(default_factory=list)
    ended: list[tuple[ProducerId, bool]] = field(default_factory=list)

    def decide(self, event: Event) -> Sequence[Effect]:
        self.events.append(event)
        if isinstance(event, Loaded) or not self.scripts:
            return ()
        return self.scripts.popleft()(event)

    def replay(self, record: StateRecord, *, offset: int, producer_id: ProducerId | None) -> None:
        self.replayed.append((record, offset, producer_id))

    def end_transaction(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        self.ended.append((producer_id, is_commit))
