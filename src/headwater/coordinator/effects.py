"""What a coordinator's state machine hears and what it orders.

A machine has two doors. `decide` takes one event and returns effects; `replay` takes one record and
is the only place where durable state moves, live and at load alike. The runtime carries out effects
in their order. What a reader would get wrong:

- The records of one `Append` are one batch: all of them are written, or none. They are replayed as
  soon as they are in the log, before the effects behind them are carried out.
- A `Reply` leaves when all that was appended to the shard before it is committed. So one that only
  reads cannot tell what a failure might still take back.
- A timer is only a hint: it may fire late or twice, and then the deadline is looked at again.
- When an append fails nothing is replayed, and the replies behind it in the same list are answered
  with the error by the runtime. Soft state (deadlines, who waits) may have moved in `decide`, and
  losing or keeping it must be harmless.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NewType, Protocol

from headwater.wire.lifting import Message

Caller = NewType("Caller", int)
"""A request that waits for its reply."""

TimerKey = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, and what is known of who sent it."""

    request: Message
    version: int
    caller: Caller
    client_id: str
    client_host: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A time that was asked for has come."""

    key: TimerKey
    now_ms: int


class StateRecord(Protocol):
    """One record of an internal topic, as a value; how it becomes bytes is the codec's affair."""


@dataclass(frozen=True, slots=True)
class Append:
    """Write these down, together, then replay them."""

    records: tuple[StateRecord, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a caller, once all that was appended before is committed."""

    to: Caller
    response: Message


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fire at a time, in place of an earlier one with the same key."""

    key: TimerKey
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Not needed any more. It may fire all the same."""

    key: TimerKey


Effect = Append | Reply | SetTimer | CancelTimer
