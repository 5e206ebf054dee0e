"""Errors to raise in the application's next poll.

An error about a partition's position is dropped if the application seeks or loses the partition
first, which the partition's token shows.
"""

from collections import deque
from typing import Final, NamedTuple

from headwater.client.consumer.subscription_state import SubscriptionState
from headwater.client.errors import KafkaError
from headwater.common.ids import TopicPartition

_PENDING_MAX: Final = 1_000


class _PendingError(NamedTuple):
    error: KafkaError
    partition: TopicPartition | None
    token: int


class FetchErrors:
    """Errors in order of occurrence. The oldest are dropped beyond a limit."""

    def __init__(self, state: SubscriptionState) -> None:
        self._state = state
        self._pending: deque[_PendingError] = deque(maxlen=_PENDING_MAX)

    @property
    def is_empty(self) -> bool:
        return not self._pending

    def add(self, error: KafkaError) -> None:
        self._pending.append(_PendingError(error, None, 0))

    def add_about(self, partition: TopicPartition, error: KafkaError) -> None:
        """Add an error that is valid for the partition's current position."""
        state = self._state.partitions.get(partition)
        if state is not None:
            self._pending.append(_PendingError(error, partition, state.token))

    def raise_first(self) -> None:
        """Raise the oldest error that is still valid, if any."""
        while self._pending:
            error, partition, token = self._pending.popleft()
            if partition is None or self._state.state_for(partition, token) is not None:
                raise error
