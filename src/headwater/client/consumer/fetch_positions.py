"""Brings every assigned partition to where it can be fetched: committed offset, reset, validation.

The shell around `subscription_state`: it sees what each partition needs, asks for it, and puts the
answer in, unless the application has moved on meanwhile. What a reader would get wrong: nothing
here raises to the application at once. What it must hear of waits among the complaints.
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

# The group has gone on while we asked. The next heartbeat tells how, and the partitions go, or the
# question is asked anew, by the member as it is then.
_MEMBER_IS_BEHIND: Final = frozenset(
    {
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.ILLEGAL_GENERATION,
    }
)
_Asked = dict[TopicPartition, int]
_LookUp = Callable[[_Asked], Awaitable[None]]
"""Partitions with the tokens under which they are asked about."""


class FetchPositions:
    """For the loop's thread."""

    def __init__(
        self,
        cluster: ClusterClient,
        state: SubscriptionState,
        offsets: OffsetRequests,
        settings: ConsumerSettings,
        *,
        complaints: FetchErrors,
        identity: Callable[[], Identity],
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._state = state
        self._offsets = offsets
        self._settings = settings
        self._rule = settings.reset_rule
        self._complaints = complaints
        self._identity = identity
        self._changed = changed
        self._tasks: set[asyncio.Task[None]] = set()

    def advance(self) -> None:
        """Ask for whatever is needed and nobody asks for yet."""
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
            asked: _Asked = {}
            for partition, state in self._state.waiting(phase, now_ms):
                state.is_asking = True
                asked[partition] = state.token
            if asked:
                self._start(asked, look_up)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _start(self, asked: _Asked, look_up: _LookUp) -> None:
        task = self._cluster.loop.create_task(self._carry_out(asked, look_up))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, asked: _Asked, look_up: _LookUp) -> None:
        try:
            # Begun here, because the task may be cancelled before it runs at all.
            await look_up(asked)
        except KafkaError as error:
            retry_at_ms = self._cluster.clock.steady_ms() + self._settings.retry_backoff_ms
            for state in self._still_asked(asked).values():
                state.retry_at_ms = retry_at_ms
            if not error.is_retriable and error.code not in _MEMBER_IS_BEHIND:
                self._complaints.add(error)
            # Somebody must look again when the back-off is over.
            self._cluster.loop.call_later(self._settings.retry_backoff_ms / 1000, self._changed)
        finally:
            for state in self._still_asked(asked).values():
                state.is_asking = False
        self._changed()

    def _still_asked(self, asked: _Asked) -> dict[TopicPartition, TopicPartitionState]:
        return {
            partition: state
            for partition, token in asked.items()
            if (state := self._state.state_for(partition, token)) is not None
        }

    def _deadline_ms(self) -> int:
        return self._cluster.clock.steady_ms() + self._settings.default_api_timeout_ms

    async def _find_committed(self, asked: _Asked) -> None:
        assert self._settings.group_id is not None
        found = await self._offsets.committed(
            self._settings.group_id,
            list(asked),
            deadline_ms=self._deadline_ms(),
            identity=self._identity(),
        )
        for partition in self._still_asked(asked):
            committed = found.get(partition)
            if committed is not None:
                self._state.seek(partition, committed.offset, committed.leader_epoch)
            else:
                self._state.reset(partition, None)

    async def _reset(self, asked: _Asked) -> None:
        now_ms = self._cluster.clock.now_ms()
        timestamps: dict[TopicPartition, int] = {}
        for partition, state in self._still_asked(asked).items():
            rule = state.reset or self._rule
            if rule == AutoOffsetReset.NONE:
                self._complaints.add_about(
                    partition,
                    NoOffsetForPartition(f"{partition} has no position, and may not choose one"),
                )
                # Asked again, and complained about again, only when the application goes on.
                state.retry_at_ms = self._cluster.clock.steady_ms() + _A_WHILE_MS
            else:
                timestamps[partition] = rule.timestamp(now_ms)
        found = await self._offsets.listed(timestamps, deadline_ms=self._deadline_ms())
        missing = {each: LATEST_TIMESTAMP for each, where in found.items() if where.offset < 0}
        # Nothing is as young as the duration says: then all that comes is.
        found |= await self._offsets.listed(missing, deadline_ms=self._deadline_ms())
        for partition in self._still_asked(asked):
            if partition in found:
                self._state.seek(partition, found[partition].offset)
                state = self._state[partition]
                # The leader has just named it, so it needs no confirmation.
                state.position_epoch = state.fetch_epoch = found[partition].leader_epoch
                view = self._cluster.metadata.partition(*partition)
                state.validated_epoch = NO_EPOCH if view is None else view.leader_epoch

    async def _validate(self, asked: _Asked) -> None:
        epochs: dict[TopicPartition, int] = {}
        leaders: dict[TopicPartition, int] = {}
        for partition, state in self._still_asked(asked).items():
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
        for partition, state in self._still_asked(asked).items():
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
        """The leader's log ends before what we fetched, or went another way (KIP-320)."""
        if self._state.drop_buffered(partition, end.end_offset, end.leader_epoch):
            state.validated_epoch = leader_epoch
            return
        offset = min(end.end_offset, state.position)
        if self._rule == AutoOffsetReset.NONE:
            self._complaints.add_about(
                partition,
                LogTruncated(f"{partition} was cut to {offset}, and {state.position} was read"),
            )
            state.retry_at_ms = self._cluster.clock.steady_ms() + _A_WHILE_MS
            return
        self._state.truncated(partition, offset, end.leader_epoch)
        self._state[partition].validated_epoch = leader_epoch


_A_WHILE_MS: Final = 1_000
