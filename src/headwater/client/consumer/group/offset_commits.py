"""Commits of a consumer: one after the other, in the order in which they were asked for.

What a reader would get wrong: a commit that was asked for later must not be overtaken by one that
is tried again, so each waits for the one before. Nor may one that is tried again reach the group
when another member has the partition, and has perhaps committed more. How one that nobody waits for
went is told in the next poll.
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
    """How a commit went that nobody waited for."""

    callback: CommitCallback
    offsets: dict[TopicPartition, OffsetAndMetadata]
    error: KafkaError | None


class OffsetCommits:
    """For the loop's thread."""

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
        """`assignment` tells one assignment of a partition from the next; None is none.

        `is_outside` is true of one who should be a member and is none at present.
        `watcher` hears of every commit, whoever asked for it.
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
        """Whether so many wait for their answers that none more can be started."""
        return len(self._unfinished) >= _UNFINISHED_MAX

    def start(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit, and let the callback hear of it in a later poll."""
        if self.is_full:
            raise KafkaTimeout(f"{_UNFINISHED_MAX} commits are waiting for their answers")
        chosen = dict(offsets)
        deadline_ms = self._cluster.clock.steady_ms() + self._timeout_ms
        task = self._queue(chosen, deadline_ms)
        if callback is not None:
            self._let_hear(callback, chosen, task)

    async def wait(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, deadline_ms: int
    ) -> None:
        """Commit, and all that was started before is done as well. Raises what went wrong."""
        await self._queue(dict(offsets), deadline_ms)

    async def settle(self, *, deadline_ms: int) -> None:
        """Let commits come to their end that nobody waits for, within the time."""
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
            self._let_hear(self._watcher, offsets, task)
        return task

    def _let_hear(
        self,
        callback: CommitCallback,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        task: asyncio.Task[None],
    ) -> None:
        """Have a callback called in a later poll, when the commit has come to its end."""

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
            # Seen here, so that one whose outcome nobody wants to know is no complaint of asyncio.
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
                is_retriable=self._may_help,
            )
            self._metrics.commit_count += 1
        except KafkaError as error:
            if error.code in _MEMBER_IS_GONE:
                raise CommitFailed(
                    f"the group has gone on without this member: {meaning(error.code)}"
                ) from error
            raise

    async def _wait_for(self, before: asyncio.Task[None], deadline_ms: int) -> None:
        left_ms = deadline_ms - self._cluster.clock.steady_ms()
        _, unfinished = await asyncio.wait([before], timeout=max(left_ms, 0) / 1000)
        if unfinished:
            raise KafkaTimeout("an earlier commit has not come to its end in time")

    def _committer(self, partitions: Collection[TopicPartition]) -> Callable[[], Identity]:
        """Who commits, at each try: the member of now, while all partitions are still its own."""
        then = self._identity()
        assigned = {each: self._assignment(each) for each in partitions}

        def identity() -> Identity:
            if self._is_outside():
                # A group without members would take it from anybody, also from one that it has
                # thrown out and whose records others have handled since.
                raise CommitFailed(
                    "this consumer is no member of its group now; "
                    "polls must not be more than max.poll.interval.ms apart"
                )
            now = self._identity()
            if now != then:
                for partition, before in assigned.items():
                    if before is None or self._assignment(partition) is not before:
                        raise CommitFailed(f"{partition} was given to another member meanwhile")
            return now

        return identity

    def _may_help(self, error: KafkaError) -> bool:
        """A member's new epoch may reach us after the commit has left; then it is said again."""
        is_member = self._identity().generation_id > 0
        return error.is_retriable or (error.code is ErrorCode.STALE_MEMBER_EPOCH and is_member)
