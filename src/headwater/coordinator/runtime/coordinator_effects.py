"""What a coordinator's state machine hears and what it orders.

A machine has two doors. `decide` takes one event and returns effects; `replay` takes one record and
is the only place where durable state moves, live and at load alike. The runtime carries out effects
in their order. What a reader would get wrong:

- The records of one `Append` are one batch: all of them are written, or none. They are replayed as
  soon as they are in the log, before the effects behind them are carried out.
- A `Reply` leaves when all that was appended to the shard before it is committed. So one that only
  reads cannot tell what a failure might still take back.
- A timer is only a hint: it may fire late or twice, and then the deadline is looked at again.
- `SendMarkers` waits for the same, because a marker cannot be taken back.
- When an append fails nothing is replayed, the replies behind it in the same list are answered
  with the error by the runtime, and markers behind it are not sent. Soft state (deadlines, who
  waits) may have moved in `decide`, and losing or keeping it must be harmless.
- A shard that is loaded anew hears nothing of what its predecessor ordered.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import NewType, Protocol

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId, TopicPartition
from headwater.protocol.older_versions import Message

Caller = NewType("Caller", int)
"""A request that waits for its reply."""

TimerKey = tuple[Hashable, ...]


def sees_all(topic: str) -> bool:  # noqa: ARG001
    """Where nobody is kept from anything."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, and what is known of who sent it."""

    request: Message
    version: int
    caller: Caller
    client_id: str
    client_host: str
    now_ms: int
    # Whether whoever sent it may know of a topic.
    sees: Callable[[str], bool] = sees_all


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A time that was asked for has come."""

    key: TimerKey
    now_ms: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """All records are replayed, and from now on requests come. Comes first, and once."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class ProducerIdTaken:
    """The request may be decided again, with the producer id that it lacked, or why there is none.

    Much may have happened in between. An id that is no longer wanted is lost, which is harmless.
    """

    asked: Asked
    outcome: ProducerId | ErrorCode
    now_ms: int


class MarkerOutcome(Enum):
    """What became of a transaction marker for one partition."""

    WRITTEN = "written"
    PARTITION_GONE = "partition gone"
    FENCED = "fenced"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersAnswered:
    """What became of some of the markers that were sent: each partition's is told once."""

    transactional_id: str
    send_id: int
    outcomes: tuple[tuple[TopicPartition, MarkerOutcome], ...]
    now_ms: int


class StateRecord(Protocol):
    """One record of an internal topic: what it is about, and what is so now, if anything.

    How it becomes bytes is the codec's affair.
    """

    @property
    def key(self) -> object: ...

    @property
    def value(self) -> object | None: ...


@dataclass(frozen=True, slots=True)
class TransactionalProducer:
    """Whose transaction a record belongs to."""

    producer_id: ProducerId
    epoch: int


@dataclass(frozen=True, slots=True)
class Append:
    """Write these down, together, then replay them.

    With a producer they are part of its transaction: they are replayed at once as something that
    is pending, and its marker says later whether it holds.
    """

    records: tuple[StateRecord, ...]
    producer: TransactionalProducer | None = None


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


@dataclass(frozen=True, slots=True)
class TakeProducerId:
    """Get a producer id that nobody had, and come back with `ProducerIdTaken`."""

    asked: Asked


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMarkers:
    """Tell the leaders of partitions how a transaction has ended.

    It leaves once all that was appended before is committed. Every partition is answered exactly
    once, by one or several `MarkersAnswered`, also when a leader does not answer. The version is
    that of the transaction (KIP-890), by which a leader tells a marker that comes late.
    """

    transactional_id: str
    send_id: int
    producer_id: ProducerId
    producer_epoch: int
    coordinator_epoch: int
    client_version: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]


Effect = Append | Reply | SetTimer | CancelTimer | TakeProducerId | SendMarkers
