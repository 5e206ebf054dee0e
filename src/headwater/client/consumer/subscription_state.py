"""What a consumer reads and how far it is: pure bookkeeping, no I/O.

A partition has two places. `position` is the next record for the application, and what a commit
says. `fetch_offset` is the next one to ask a broker for; it runs ahead by what is buffered. A seek
moves both, and gives the partition a new `token`: an answer to a question that was asked under an
older token is thrown away.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from headwater.client.consumer.auto_offset_reset import AutoOffsetReset
from headwater.client.errors import IllegalState
from headwater.common.ids import NO_EPOCH, TopicPartition


class FetchState(Enum):
    """What must happen before a partition can be fetched."""

    NEEDS_COMMITTED = "needs committed offset"
    NEEDS_RESET = "needs reset"
    NEEDS_VALIDATION = "needs validation"
    """The leader has changed: does it still have what we read? (KIP-320)"""
    FETCHING = "fetching"


@dataclass(slots=True)
class TopicPartitionState:
    """One assigned partition."""

    token: int
    phase: FetchState
    position: int = -1
    position_epoch: int = NO_EPOCH
    """The leader epoch of the record before the position, if known."""
    fetch_offset: int = -1
    fetch_epoch: int = NO_EPOCH
    validated_epoch: int = NO_EPOCH
    """The epoch of the leader that was asked last whether it has our position."""
    reset: AutoOffsetReset | None = None
    is_paused: bool = False
    is_asking: bool = False
    """A look-up for the present phase is under way."""
    retry_at_ms: int = 0
    buffered_bytes: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    read_replica: int = -1
    read_replica_until_ms: int = 0

    @property
    def has_position(self) -> bool:
        return self.phase in (FetchState.FETCHING, FetchState.NEEDS_VALIDATION)

    def may_fetch(self, now_ms: int) -> bool:
        return (
            self.phase is FetchState.FETCHING and not self.is_paused and now_ms >= self.retry_at_ms
        )


class SubscriptionState:
    """All assigned partitions, in the order in which they were assigned."""

    def __init__(self, *, has_group: bool) -> None:
        self._has_group = has_group
        self._tokens = 0
        self.partitions: dict[TopicPartition, TopicPartitionState] = {}

    def __getitem__(self, partition: TopicPartition) -> TopicPartitionState:
        state = self.partitions.get(partition)
        if state is None:
            raise IllegalState(f"{partition} is not assigned to this consumer")
        return state

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Exactly these. What stays keeps its position, its pause and what is buffered of it."""
        first = FetchState.NEEDS_COMMITTED if self._has_group else FetchState.NEEDS_RESET
        known = self.partitions
        self.partitions = {
            partition: known.get(partition) or TopicPartitionState(self._next_token(), first)
            for partition in partitions
        }

    def state_for(self, partition: TopicPartition, token: int) -> TopicPartitionState | None:
        """The state, if an answer to a question under this token still matters."""
        state = self.partitions.get(partition)
        return state if state is not None and state.token == token else None

    def seek(self, partition: TopicPartition, offset: int, epoch: int = NO_EPOCH) -> None:
        """Go on at an offset. If its epoch is given, the leader is asked whether it has that."""
        state = self[partition]
        self._restart(state)
        state.position = state.fetch_offset = offset
        state.position_epoch = state.fetch_epoch = epoch
        state.validated_epoch = NO_EPOCH
        state.phase = FetchState.FETCHING if epoch == NO_EPOCH else FetchState.NEEDS_VALIDATION

    def reset(self, partition: TopicPartition, rule: AutoOffsetReset | None) -> None:
        """Find a new position, by a rule or, with None, by `auto.offset.reset`."""
        state = self[partition]
        self._restart(state)
        state.phase = FetchState.NEEDS_RESET
        state.reset = rule

    def truncated(self, partition: TopicPartition, offset: int, epoch: int) -> None:
        """The leader has less than we read: go back to where its log and ours part."""
        state = self[partition]
        self._restart(state)
        state.position = state.fetch_offset = offset
        state.position_epoch = state.fetch_epoch = epoch
        state.phase = FetchState.FETCHING

    def drop_buffered(self, partition: TopicPartition, end_offset: int, epoch: int) -> bool:
        """The leader has not all that we fetched: fetch again what the application has not got.

        False if the leader lacks some of what the application has got, too.
        """
        state = self[partition]
        if state.position > end_offset or state.position_epoch > epoch:
            return False
        self.truncated(partition, state.position, state.position_epoch)
        return True

    def consumed(self, state: TopicPartitionState, offset: int, epoch: int) -> None:
        """The application has got all before this offset."""
        state.position = offset
        state.position_epoch = epoch

    def leader_epoch_seen(self, state: TopicPartitionState, leader_epoch: int) -> None:
        """Metadata names a leader. A newer one must confirm the position, if we can say its epoch.

        What is buffered stays: the log matched up to the position when it was fetched.
        """
        if leader_epoch <= state.validated_epoch or not state.has_position:
            return
        if state.fetch_epoch == NO_EPOCH:
            state.validated_epoch = leader_epoch
        else:
            state.phase = FetchState.NEEDS_VALIDATION

    def validated(self, state: TopicPartitionState, leader_epoch: int) -> None:
        state.validated_epoch = leader_epoch
        state.phase = FetchState.FETCHING

    def waiting(
        self, phase: FetchState, now_ms: int
    ) -> Iterator[tuple[TopicPartition, TopicPartitionState]]:
        """Partitions in a phase for which nobody asks yet."""
        for partition, state in self.partitions.items():
            if state.phase is phase and not state.is_asking and now_ms >= state.retry_at_ms:
                yield partition, state

    def _restart(self, state: TopicPartitionState) -> None:
        state.token = self._next_token()
        state.is_asking = False
        state.retry_at_ms = 0
        state.buffered_bytes = 0
        state.read_replica = -1
        state.reset = None

    def _next_token(self) -> int:
        self._tokens += 1
        return self._tokens
