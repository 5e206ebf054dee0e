"""What both kinds of group members have in common: what they ask, and what they tell the consumer.

A member is a pure machine. Its shell asks `next_ask` what to send, sends it, and tells what came of
it. What the application must hear of (partitions that come and go) is a queue: the first entry is
`rebalance`, the consumer carries it out inside `poll`, and says so. The machine does not go on
before that, but it keeps on beating its heart.
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
    """What happens to partitions."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    """They must be given up; their offsets can still be committed."""
    LOST = "lost"
    """They are gone, and others may have them already; commits would be refused."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One thing that the application must hear of."""

    change: AssignmentChange
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the coordinator, and what its answer is. None waits by `request.timeout.ms`."""

    request: Message
    response: type[Message]
    timeout_ms: int | None = None


class Identity(NamedTuple):
    """Who commits, as the coordinator knows it: a generation, or a member's epoch."""

    generation_id: int
    member_id: str
    group_instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """What a member is told once."""

    group_id: str
    group_instance_id: str | None = None
    rack_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    retry_backoff_ms: int = 100


class GroupMemberProtocol(Protocol):
    """One consumer's part in a group."""

    @property
    def rebalance(self) -> Rebalance | None:
        """What the application must hear of next."""
        ...

    @property
    def failure(self) -> KafkaError | None:
        """Why this member cannot go on; a new subscription starts it again."""
        ...

    @property
    def owned(self) -> tuple[TopicPartition, ...]: ...

    @property
    def identity(self) -> Identity: ...

    @property
    def has_lost_coordinator(self) -> bool:
        """Whether the next question must go to another node than the last one."""
        ...

    def subscribe(self, topics: Iterable[str]) -> None: ...

    def forgive(self, now_ms: int) -> None: ...

    def polled(self, now_ms: int) -> None: ...

    def next_ask(self, now_ms: int) -> Ask | None: ...

    def wake_at_ms(self, now_ms: int) -> int: ...

    def answered(self, response: Message, now_ms: int) -> None: ...

    def failed(self, error: KafkaError, now_ms: int) -> None: ...

    def rebalance_done(self) -> None: ...

    def leave(self) -> Ask | None: ...


# The coordinator is elsewhere, or not there yet.
COORDINATOR_GONE = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})


class RebalanceQueue:
    """What the application has yet to hear of, and what it owns after each."""

    def __init__(self) -> None:
        self._waiting: deque[Rebalance] = deque()
        self.owned: tuple[TopicPartition, ...] = ()

    @property
    def first(self) -> Rebalance | None:
        return self._waiting[0] if self._waiting else None

    def put(self, change: AssignmentChange, partitions: Iterable[TopicPartition]) -> None:
        """Of giving up nothing nobody hears; being assigned nothing is news (Kafka does this)."""
        concerned = tuple(sorted(partitions))
        if concerned or change is AssignmentChange.ASSIGNED:
            self._waiting.append(Rebalance(change, concerned))

    def done(self) -> None:
        """The application has heard of the first one."""
        rebalance = self._waiting.popleft()
        concerned = set(rebalance.partitions)
        if rebalance.change is AssignmentChange.ASSIGNED:
            self.owned = tuple(sorted(concerned.union(self.owned)))
        else:
            self.owned = tuple(each for each in self.owned if each not in concerned)

    def lose_all(self) -> None:
        """All is gone; what was to be given up, or to come, no longer matters."""
        self._waiting.clear()
        self.put(AssignmentChange.LOST, self.owned)
