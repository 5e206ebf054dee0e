"""Find fetch positions: committed offsets, resets, validation (KIP-320).

Drives `subscription_state`: sends the requests that partitions need and applies the responses,
unless the application has sought elsewhere meanwhile.

Note: errors are not raised here. They are added to the fetch errors, which the next poll raises.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from headwater.client.consumer.auto_offset_reset import LATEST_TIMESTAMP, AutoOffsetReset
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.consumer.fetch.fetch_errors import FetchErrors
from headwater.client.consumer.group.member import Identity
from headwater.client.consumer.offset_requests import OffsetRequests
from headwater.client.consumer.subscription_state import (
    FetchState,
    SubscriptionState,
    TopicPartitionState,
)
from headwater.client.errors import (
    KafkaError,
    LogTruncated,
    NoOffsetForPartition,
    UnsupportedVersion,
)
from headwater.client.network.cluster_client import ClusterClient
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_EPOCH, TopicPartition
from headwater.protocol.messages.offset_for_leader_epoch import EpochEndOffset

# The group has rebalanced during the request. The next heartbeat revokes the partitions or updates
# the member's identity, with which the request is repeated.
_MEMBER_IS_BEHIND: Final = frozenset(
    {
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.ILLEGAL_GENERATION,
    }
)
_Requested = dict[TopicPartition, int]
"""Partitions with their tokens at the time of the request."""
_LookUp = Callable[[_Requested], Awaitable[None]]


class FetchPositions:
    """Runs on the loop's thread."""

    def __init__(
        self,
        cluster: ClusterClient,
        state: SubscriptionState,
        offsets: OffsetRequests,
        settings: ConsumerSettings,
        *,
        fetch_errors: FetchErrors,
        identity: Callable[[], Identity],
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._state = state
        self._offsets = offsets
        self._settings = settings
        self._reset_strategy = settings.reset_strategy
        self._fetch_errors = fetch_errors
        self._identity = identity
        self._changed = changed
        self._tasks: set[asyncio.Task[None]] = set()

    def advance(self) -> None:
        """Start all requests that are needed and not yet in flight."""
        now_ms = self._cluster.clock.steady_ms()
        for partition, state in self._state.partitions.items():
            view = self._cluster.metadata.partition(*partition)
            if view is not None and view.leader_epoch != NO_EPOCH:
                self._state.leader_epoch_seen(state, view.leader_epoch)
        for phase, look_up in (
            (FetchState.NEEDS_COMMITTED, self._find_committed),
            (FetchState.NEEDS_RESET, self._reset),
            (FetchState.NEEDS_VALIDATION, self._validate),
        ):
            requested: _Requested = {}
            for partition, state in self._state.waiting(phase, now_ms):
                state.is_requesting = True
                requested[partition] = state.token
            if requested:
                self._start(requested, look_up)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _start(self, requested: _Requested, look_up: _LookUp) -> None:
        task = self._cluster.loop.create_task(self._carry_out(requested, look_up))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, requested: _Requested, look_up: _LookUp) -> None:
        try:
            # Called inside the task, because it may be cancelled before it starts.
            await look_up(requested)
        except KafkaError as error:
            retry_at_ms = self._cluster.clock.steady_ms() + self._settings.retry_backoff_ms
            for state in self._still_current(requested).values():
                state.retry_at_ms = retry_at_ms
            if not error.is_retriable and error.code not in _MEMBER_IS_BEHIND:
                self._fetch_errors.add(error)
            # Try again after the backoff.
            self._cluster.loop.call_later(self._settings.retry_backoff_ms / 1000, self._changed)
        finally:
            for state in self._still_current(requested).values():
                state.is_requesting = False
        self._changed()

    def _still_current(self, requested: _Requested) -> dict[TopicPartition, TopicPartitionState]:
        return {
            partition: state
            for partition, token in requested.items()
            if (state := self._state.state_for(partition, token)) is not None
        }

    def _deadline_ms(self) -> int:
        return self._cluster.clock.steady_ms() + self._settings.default_api_timeout_ms

    async def _find_committed(self, requested: _Requested) -> None:
        assert self._settings.group_id is not None
        found = await self._offsets.committed(
            self._settings.group_id,
            list(requested),
            deadline_ms=self._deadline_ms(),
            identity=self._identity(),
        )
        for partition in self._still_current(requested):
            committed = found.get(partition)
            if committed is not None:
                self._state.seek(partition, committed.offset, committed.leader_epoch)
            else:
                self._state.reset(partition, None)

    async def _reset(self, requested: _Requested) -> None:
        now_ms = self._cluster.clock.now_ms()
        timestamps: dict[TopicPartition, int] = {}
        for partition, state in self._still_current(requested).items():
            strategy = state.reset or self._reset_strategy
            if strategy == AutoOffsetReset.NONE:
                self._fetch_errors.add_about(
                    partition,
                    NoOffsetForPartition(
                        f"{partition} has no committed offset, and auto.offset.reset is none"
                    ),
                )
                # Do not repeat the error in a tight loop.
                state.retry_at_ms = self._cluster.clock.steady_ms() + _ERROR_INTERVAL_MS
            else:
                timestamps[partition] = strategy.timestamp(now_ms)
        found = await self._offsets.listed(timestamps, deadline_ms=self._deadline_ms())
        missing = {each: LATEST_TIMESTAMP for each, where in found.items() if where.offset < 0}
        # No record is younger than by_duration: start at the end.
        found |= await self._offsets.listed(missing, deadline_ms=self._deadline_ms())
        for partition in self._still_current(requested):
            if partition in found:
                self._state.seek(partition, found[partition].offset)
                state = self._state[partition]
                # The offset comes from the leader, so it needs no validation.
                state.position_epoch = state.fetch_epoch = found[partition].leader_epoch
                view = self._cluster.metadata.partition(*partition)
                state.validated_epoch = NO_EPOCH if view is None else view.leader_epoch

    async def _validate(self, requested: _Requested) -> None:
        epochs: dict[TopicPartition, int] = {}
        leaders: dict[TopicPartition, int] = {}
        for partition, state in self._still_current(requested).items():
            view = self._cluster.metadata.partition(*partition)
            leaders[partition] = NO_EPOCH if view is None else view.leader_epoch
            if state.fetch_epoch == NO_EPOCH or leaders[partition] == NO_EPOCH:
                self._state.validated(state, leaders[partition])
            else:
                epochs[partition] = state.fetch_epoch
        try:
            ends = await self._offsets.ends_of_epochs(epochs, deadline_ms=self._deadline_ms())
        except UnsupportedVersion:
            ends = {}
        for partition, state in self._still_current(requested).items():
            end = ends.get(partition)
            if end is None or (end.leader_epoch == NO_EPOCH and end.end_offset < 0):
                self._state.validated(state, leaders[partition])
            elif end.end_offset < state.fetch_offset or end.leader_epoch < state.fetch_epoch:
                self._diverged(partition, state, end, leaders[partition])
            else:
                self._state.validated(state, leaders[partition])

    def _diverged(
        self,
        partition: TopicPartition,
        state: TopicPartitionState,
        end: EpochEndOffset,
        leader_epoch: int,
    ) -> None:
        """The leader's log ends before our position or diverges from it (KIP-320)."""
        if self._state.drop_buffered(partition, end.end_offset, end.leader_epoch):
            state.validated_epoch = leader_epoch
            return
        offset = min(end.end_offset, state.position)
        if self._reset_strategy == AutoOffsetReset.NONE:
            self._fetch_errors.add_about(
                partition,
                LogTruncated(
                    f"{partition} was truncated to {offset}; position {state.position} is lost"
                ),
            )
            state.retry_at_ms = self._cluster.clock.steady_ms() + _ERROR_INTERVAL_MS
            return
        self._state.truncated(partition, offset, end.leader_epoch)
        self._state[partition].validated_epoch = leader_epoch


_ERROR_INTERVAL_MS: Final = 1_000
