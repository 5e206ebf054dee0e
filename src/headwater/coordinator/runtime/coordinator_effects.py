"""Events and effects of a coordinator's state machine.

`decide` takes one event and returns effects. `replay` takes one record and is the only place where
durable state changes, both live and while loading. The runtime executes effects in order. Rules:

- The records of one `Append` are one batch: all are written or none. They are replayed as soon as
  they are in the log, before the following effects are executed.
- A `Reply` is sent when everything appended to the shard before it is committed. So a read cannot
  return state that a failure might still undo.
- A timer is only a hint: it may fire late or twice, so the deadline is checked again.
- `SendMarkers` waits for the commit too, because a marker cannot be undone.
- If an append fails, nothing is replayed, the runtime answers the following replies of the same
  list with the error, and following markers are not sent. Soft state (deadlines, waiting requests)
  may have changed in `decide`; losing or keeping it must be harmless.
- A shard that is loaded again gets no results of effects of its predecessor.
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
    """Used where no authorization applies."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvent:
    """A request and its client."""

    request: Message
    version: int
    caller: Caller
    client_id: str
    client_host: str
    now_ms: int
    # Whether the client is authorized to see a topic.
    sees: Callable[[str], bool] = sees_all


@dataclass(frozen=True, slots=True)
class TimerFired:
    key: TimerKey
    now_ms: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """All records have been replayed. The first event of a shard."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class ProducerIdGenerated:
    """Process a request again with the producer id that it needed, or with the error.

    The state may have changed in between. An unused id is lost, which is harmless.
    """

    asked: RequestEvent
    outcome: ProducerId | ErrorCode
    now_ms: int


class MarkerOutcome(Enum):
    """Result of a transaction marker in one partition."""

    WRITTEN = "written"
    PARTITION_DELETED = "partition gone"
    FENCED = "fenced"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersAnswered:
    """Results of some of the markers that were sent; each partition is reported once."""

    transactional_id: str
    send_id: int
    outcomes: tuple[tuple[TopicPartition, MarkerOutcome], ...]
    now_ms: int


class StateRecord(Protocol):
    """One record of an internal topic. A codec converts it to bytes."""

    @property
    def key(self) -> object: ...

    @property
    def value(self) -> object | None: ...


@dataclass(frozen=True, slots=True)
class TransactionalProducer:
    """The producer whose transaction a record belongs to."""

    producer_id: ProducerId
    epoch: int


@dataclass(frozen=True, slots=True)
class Append:
    """Append these records as one batch, then replay them.

    With a producer they are part of its transaction: they are replayed as pending, and the marker
    later commits or aborts them.
    """

    records: tuple[StateRecord, ...]
    producer: TransactionalProducer | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request when everything appended before is committed."""

    to: Caller
    response: Message


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Set a timer, replacing an earlier one with the same key."""

    key: TimerKey
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Cancel a timer. It may still fire."""

    key: TimerKey


@dataclass(frozen=True, slots=True)
class GenerateProducerId:
    """Allocate a producer id; the result is a `ProducerIdGenerated` event."""

    asked: RequestEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMarkers:
    """Send transaction markers to the leaders of partitions.

    Sent when everything appended before is committed. Every partition is reported exactly once, in
    one or several `MarkersAnswered`, even if a leader does not answer. A leader recognizes late
    markers by the transaction version (KIP-890).
    """

    transactional_id: str
    send_id: int
    producer_id: ProducerId
    producer_epoch: int
    coordinator_epoch: int
    client_version: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]


Effect = Append | Reply | SetTimer | CancelTimer | GenerateProducerId | SendMarkers
