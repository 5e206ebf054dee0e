"""Positions of assigned partitions, as Kafka's SubscriptionState. Pure.

A partition has two positions. `position` is the next record for the application, and what is
committed. `fetch_offset` is the next one to fetch; it is ahead by what is buffered. A seek moves
both and gives the partition a new `token`: responses to requests under an older token are dropped.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from headwater.client.consumer.auto_offset_reset import AutoOffsetReset
from headwater.client.errors import IllegalState
from headwater.common.ids import NO_EPOCH, TopicPartition


class FetchState(Enum):
    """What a partition needs before it can be fetched."""

    NEEDS_COMMITTED = "needs committed offset"
    NEEDS_RESET = "needs reset"
    NEEDS_VALIDATION = "needs validation"
    """The leader has changed; check that it has our position (KIP-320)."""
    FETCHING = "fetching"


@dataclass(slots=True)
class TopicPartitionState:
    """The state of one assigned partition."""

    token: int
    phase: FetchState
    position: int = -1
    position_epoch: int = NO_EPOCH
    """The leader epoch of the record before the position, if known."""
    fetch_offset: int = -1
    fetch_epoch: int = NO_EPOCH
    validated_epoch: int = NO_EPOCH
    """The leader epoch against which the position was last validated."""
    reset: AutoOffsetReset | None = None
    is_paused: bool = False
    is_requesting: bool = False
    """A request for the current state is in flight."""
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
    """All assigned partitions, in order of assignment."""

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
        """Assign exactly these. Remaining ones keep position, pause and buffered data."""
        first = FetchState.NEEDS_COMMITTED if self._has_group else FetchState.NEEDS_RESET
        known = self.partitions
        self.partitions = {
            partition: known.get(partition) or TopicPartitionState(self._next_token(), first)
            for partition in partitions
        }

    def state_for(self, partition: TopicPartition, token: int) -> TopicPartitionState | None:
        """The state, if a response to a request under this token is still valid."""
        state = self.partitions.get(partition)
        return state if state is not None and state.token == token else None

    def seek(self, partition: TopicPartition, offset: int, epoch: int = NO_EPOCH) -> None:
        """Continue at an offset. With an epoch, the position is validated with the leader."""
        state = self[partition]
        self._restart(state)
        state.position = state.fetch_offset = offset
        state.position_epoch = state.fetch_epoch = epoch
        state.validated_epoch = NO_EPOCH
        state.phase = FetchState.FETCHING if epoch == NO_EPOCH else FetchState.NEEDS_VALIDATION

    def reset(self, partition: TopicPartition, strategy: AutoOffsetReset | None) -> None:
        """Find a new position, with a strategy or, for None, with `auto.offset.reset`."""
        state = self[partition]
        self._restart(state)
        state.phase = FetchState.NEEDS_RESET
        state.reset = strategy

    def truncated(self, partition: TopicPartition, offset: int, epoch: int) -> None:
        """Go back to the offset where the leader's log diverges."""
        state = self[partition]
        self._restart(state)
        state.position = state.fetch_offset = offset
        state.position_epoch = state.fetch_epoch = epoch
        state.phase = FetchState.FETCHING

    def drop_buffered(self, partition: TopicPartition, end_offset: int, epoch: int) -> bool:
        """Fetch buffered records again, because the leader does not have all of them.

        False if the leader also lacks records that the application has consumed.
        """
        state = self[partition]
        if state.position > end_offset or state.position_epoch > epoch:
            return False
        self.truncated(partition, state.position, state.position_epoch)
        return True

    def consumed(self, state: TopicPartitionState, offset: int, epoch: int) -> None:
        """The application has consumed all records before this offset."""
        state.position = offset
        state.position_epoch = epoch

    def leader_epoch_seen(self, state: TopicPartitionState, leader_epoch: int) -> None:
        """Require validation if metadata has a newer leader epoch and our epoch is known.

        Buffered data stays valid: the log matched when it was fetched.
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
        """Partitions in a state whose request is not in flight yet."""
        for partition, state in self.partitions.items():
            if state.phase is phase and not state.is_requesting and now_ms >= state.retry_at_ms:
                yield partition, state

    def _restart(self, state: TopicPartitionState) -> None:
        state.token = self._next_token()
        state.is_requesting = False
        state.retry_at_ms = 0
        state.buffered_bytes = 0
        state.read_replica = -1
        state.reset = None

    def _next_token(self) -> int:
        self._tokens += 1
        return self._tokens
