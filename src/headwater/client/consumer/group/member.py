"""What the members of both group protocols share: requests and rebalance events.

A member is a pure state machine. The heartbeat loop asks `next_request` for the request to send and
reports the result. Changes of the assignment form a queue: its head is `rebalance`, which the
consumer processes inside `poll` and then acknowledges. Until then the member sends heartbeats but
does not continue the rebalance.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from headwater.client.errors import KafkaError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.protocol.older_versions import Message


class AssignmentChange(Enum):
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    """To be revoked; their offsets can still be committed."""
    LOST = "lost"
    """Already lost, perhaps to another member; commits would be rejected."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One assignment change for the rebalance listener."""

    change: AssignmentChange
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class CoordinatorRequest:
    """A request to the coordinator, with its response type and timeout.

    The default timeout is `request.timeout.ms`.
    """

    request: Message
    response: type[Message]
    timeout_ms: int | None = None


class Identity(NamedTuple):
    """The committing member: generation (or member epoch), member id and instance id."""

    generation_id: int
    member_id: str
    group_instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    group_id: str
    group_instance_id: str | None = None
    rack_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    retry_backoff_ms: int = 100


class GroupMemberProtocol(Protocol):
    @property
    def rebalance(self) -> Rebalance | None:
        """The next assignment change for the application."""
        ...

    @property
    def failure(self) -> KafkaError | None:
        """A fatal error of this member; a new subscription restarts it."""
        ...

    @property
    def owned(self) -> tuple[TopicPartition, ...]: ...

    @property
    def identity(self) -> Identity: ...

    @property
    def has_lost_coordinator(self) -> bool:
        """Whether the coordinator must be looked up before the next request."""
        ...

    def subscribe(self, topics: Iterable[str]) -> None: ...

    def clear_failure(self, now_ms: int) -> None: ...

    def polled(self, now_ms: int) -> None: ...

    def next_request(self, now_ms: int) -> CoordinatorRequest | None: ...

    def wake_at_ms(self, now_ms: int) -> int: ...

    def handle_response(self, response: Message, now_ms: int) -> None: ...

    def handle_error(self, error: KafkaError, now_ms: int) -> None: ...

    def rebalance_done(self) -> None: ...

    def leave(self) -> CoordinatorRequest | None: ...


# The coordinator has moved or does not exist yet.
COORDINATOR_LOST = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})


class RebalanceQueue:
    """Assignment changes that the application has not seen yet, and what it owns."""

    def __init__(self) -> None:
        self._waiting: deque[Rebalance] = deque()
        self.owned: tuple[TopicPartition, ...] = ()

    @property
    def first(self) -> Rebalance | None:
        return self._waiting[0] if self._waiting else None

    def put(self, change: AssignmentChange, partitions: Iterable[TopicPartition]) -> None:
        """Queue a change; report empty assignments but not empty revocations, as Kafka."""
        concerned = tuple(sorted(partitions))
        if concerned or change is AssignmentChange.ASSIGNED:
            self._waiting.append(Rebalance(change, concerned))

    def done(self) -> None:
        """The application has processed the first change."""
        rebalance = self._waiting.popleft()
        concerned = set(rebalance.partitions)
        if rebalance.change is AssignmentChange.ASSIGNED:
            self.owned = tuple(sorted(concerned.union(self.owned)))
        else:
            self.owned = tuple(each for each in self.owned if each not in concerned)

    def mark_all_lost(self) -> None:
        """Report all partitions as lost; pending changes are obsolete."""
        self._waiting.clear()
        self.put(AssignmentChange.LOST, self.owned)
