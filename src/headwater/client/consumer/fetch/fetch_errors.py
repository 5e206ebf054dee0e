"""What the application must hear of in its next poll, unless it has moved on meanwhile.

A complaint about a partition's position is void as soon as the application seeks there, or the
partition goes: it is kept with the partition's token.
"""

from collections import deque
from typing import Final, NamedTuple

from headwater.client.consumer.subscription_state import SubscriptionState
from headwater.client.errors import KafkaError
from headwater.common.ids import TopicPartition

_WAITING_MAX: Final = 1_000


class _Complaint(NamedTuple):
    error: KafkaError
    partition: TopicPartition | None
    token: int


class FetchErrors:
    """Errors in the order in which they came up. The oldest give way when there are too many."""

    def __init__(self, state: SubscriptionState) -> None:
        self._state = state
        self._waiting: deque[_Complaint] = deque(maxlen=_WAITING_MAX)

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def add(self, error: KafkaError) -> None:
        self._waiting.append(_Complaint(error, None, 0))

    def add_about(self, partition: TopicPartition, error: KafkaError) -> None:
        """About a partition as it is now."""
        state = self._state.partitions.get(partition)
        if state is not None:
            self._waiting.append(_Complaint(error, partition, state.token))

    def raise_first(self) -> None:
        """Raise the oldest that still matters, if there is one."""
        while self._waiting:
            error, partition, token = self._waiting.popleft()
            if partition is None or self._state.state_for(partition, token) is not None:
                raise error
