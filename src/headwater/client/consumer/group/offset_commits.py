"""Offset commits of a consumer, sent one after the other in order.

Note: a retried commit must not overtake a later one, so each waits for its predecessor. A retry
must also not reach the group after the partition has moved to another member, which may have
committed more. Callbacks of asynchronous commits run in the next poll.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from headwater.client.consumer.consumer_metrics import ConsumerMetrics
from headwater.client.consumer.group.member import Identity
from headwater.client.consumer.offset_requests import OffsetRequests
from headwater.client.error_messages import meaning
from headwater.client.errors import CommitFailed, KafkaError, KafkaTimeout
from headwater.client.group_metadata import OffsetAndMetadata
from headwater.client.network.cluster_client import ClusterClient
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition

CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], KafkaError | None], object]

_UNFINISHED_MAX: Final = 1_000
_MEMBER_IS_GONE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)


class FinishedCommit(NamedTuple):
    """The result of an asynchronous commit, for its callback."""

    callback: CommitCallback
    offsets: dict[TopicPartition, OffsetAndMetadata]
    error: KafkaError | None


class OffsetCommits:
    """Runs on the loop's thread."""

    def __init__(
        self,
        cluster: ClusterClient,
        offsets: OffsetRequests,
        group_id: str,
        *,
        identity: Callable[[], Identity],
        is_outside: Callable[[], bool],
        assignment: Callable[[TopicPartition], object | None],
        metrics: ConsumerMetrics,
        watcher: CommitCallback | None,
        timeout_ms: int,
    ) -> None:
        """`assignment` identifies a partition's current assignment; None if unassigned.

        `is_outside` is true while the consumer should be a member of the group but is not.
        `watcher` is called after every commit.
        """
        self._cluster = cluster
        self._offsets = offsets
        self._group_id = group_id
        self._identity = identity
        self._is_outside = is_outside
        self._assignment = assignment
        self._metrics = metrics
        self._watcher = watcher
        self._timeout_ms = timeout_ms
        self._last: asyncio.Task[None] | None = None
        self._unfinished: set[asyncio.Task[None]] = set()
        self.finished: deque[FinishedCommit] = deque(maxlen=_UNFINISHED_MAX)

    @property
    def is_full(self) -> bool:
        """Whether the maximum of commits is pending."""
        return len(self._unfinished) >= _UNFINISHED_MAX

    def start(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit asynchronously; the callback runs in a later poll."""
        if self.is_full:
            raise KafkaTimeout(f"{_UNFINISHED_MAX} commits are pending; wait for their callbacks")
        chosen = dict(offsets)
        deadline_ms = self._cluster.clock.steady_ms() + self._timeout_ms
        task = self._queue(chosen, deadline_ms)
        if callback is not None:
            self._add_callback(callback, chosen, task)

    async def wait(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, deadline_ms: int
    ) -> None:
        """Commit and wait, also for all earlier commits. Raises the error."""
        await self._queue(dict(offsets), deadline_ms)

    async def await_pending(self, *, deadline_ms: int) -> None:
        """Wait for pending commits until the deadline."""
        left_ms = deadline_ms - self._cluster.clock.steady_ms()
        if self._unfinished and left_ms > 0:
            await asyncio.wait(self._unfinished, timeout=left_ms / 1000)

    def close(self) -> None:
        for task in self._unfinished:
            task.cancel()

    def _queue(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], deadline_ms: int
    ) -> asyncio.Task[None]:
        before = self._last if self._last is not None and not self._last.done() else None
        self._last = task = self._cluster.loop.create_task(
            self._commit(before, offsets, self._committer(offsets), deadline_ms)
        )
        self._unfinished.add(task)
        task.add_done_callback(self._forget)
        if self._watcher is not None:
            self._add_callback(self._watcher, offsets, task)
        return task

    def _add_callback(
        self,
        callback: CommitCallback,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        task: asyncio.Task[None],
    ) -> None:
        """Queue the callback for a later poll when the commit is done."""

        def finished(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                return
            error = task.exception()
            assert error is None or isinstance(error, KafkaError)
            self.finished.append(FinishedCommit(callback, offsets, error))

        task.add_done_callback(finished)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._unfinished.discard(task)
        if not task.cancelled():
            # Retrieved, so that asyncio does not log it as never retrieved.
            task.exception()

    async def _commit(
        self,
        before: asyncio.Task[None] | None,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        identity: Callable[[], Identity],
        deadline_ms: int,
    ) -> None:
        if before is not None:
            await self._wait_for(before, deadline_ms)
        try:
            await self._offsets.commit(
                self._group_id,
                offsets,
                identity,
                deadline_ms=deadline_ms,
                is_retriable=self._is_retriable,
            )
            self._metrics.commit_count += 1
        except KafkaError as error:
            if error.code in _MEMBER_IS_GONE:
                raise CommitFailed(
                    f"the member is no longer in the group: {meaning(error.code)}"
                ) from error
            raise

    async def _wait_for(self, before: asyncio.Task[None], deadline_ms: int) -> None:
        left_ms = deadline_ms - self._cluster.clock.steady_ms()
        _, unfinished = await asyncio.wait([before], timeout=max(left_ms, 0) / 1000)
        if unfinished:
            raise KafkaTimeout("an earlier commit has not completed before the timeout")

    def _committer(self, partitions: Collection[TopicPartition]) -> Callable[[], Identity]:
        """The identity for each attempt, checked against the current assignment."""
        then = self._identity()
        assigned = {each: self._assignment(each) for each in partitions}

        def identity() -> Identity:
            if self._is_outside():
                # A group without members would accept the commit of a removed member, although
                # other members may have processed its records since.
                raise CommitFailed(
                    "the consumer is not a member of its group; call poll more often than "
                    "max.poll.interval.ms"
                )
            now = self._identity()
            if now != then:
                for partition, before in assigned.items():
                    if before is None or self._assignment(partition) is not before:
                        raise CommitFailed(f"{partition} has been reassigned to another member")
            return now

        return identity

    def _is_retriable(self, error: KafkaError) -> bool:
        """STALE_MEMBER_EPOCH too: a new member epoch may arrive after the commit was sent."""
        is_member = self._identity().generation_id > 0
        return error.is_retriable or (error.code is ErrorCode.STALE_MEMBER_EPOCH and is_member)
