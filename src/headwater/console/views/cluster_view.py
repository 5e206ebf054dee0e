"""What exists in a cluster, as of a moment ago: brokers, topics and how much they hold.

What a reader would get wrong: a survey is shared by all who ask within two seconds, so that a
browser that reloads, or ten of them, cost a large cluster one question. Whoever changes something
calls `forget`, and so sees the change on the next page.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from headwater.client.admin.descriptions import ClusterDescription, LogDir, TopicDescription
from headwater.client.aio import Admin
from headwater.client.errors import KafkaError, SomeFailed, UnknownTopicOrPartition
from headwater.client.network.cluster_metadata import PartitionView
from headwater.common.ids import TopicPartition
from headwater.common.ports import Clock

FRESH_MS: Final = 2_000

_FIRST_ANSWER_S: Final = 4.0
"""Whoever answers at all does so soon; nobody looks at an empty page for longer."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster at one moment. `log_dirs` lacks brokers that do not tell, and `untold` says why."""

    cluster: ClusterDescription
    topics: dict[str, TopicDescription]
    log_dirs: dict[int, list[LogDir]]
    untold: dict[int, str]

    def sizes(self) -> dict[TopicPartition, int]:
        """The bytes of all replicas of each partition."""
        found: dict[TopicPartition, int] = {}
        for directories in self.log_dirs.values():
            for directory in directories:
                for place, replica in directory.replicas.items():
                    found[place] = found.get(place, 0) + replica.size_bytes
        return found


class CachedView(Generic[T]):
    """An answer that is asked for once, however many want it at the same time."""

    def __init__(self, ask: Callable[[], Awaitable[T]], clock: Clock, *, fresh_ms: int) -> None:
        self._ask = ask
        self._clock = clock
        self._fresh_ms = fresh_ms
        self._asked: asyncio.Task[T] | None = None
        self._asked_at_ms = 0

    async def get(self) -> T:
        now_ms = self._clock.steady_ms()
        asked = self._asked
        if asked is None or (asked.done() and not self._is_fresh(asked, now_ms)):
            asked = self._asked = asyncio.ensure_future(self._ask())
            self._asked_at_ms = now_ms
        # Whoever goes away must not take the answer from the others.
        return await asyncio.shield(asked)

    def forget(self) -> None:
        self._asked = None

    def _is_fresh(self, asked: "asyncio.Task[T]", now_ms: int) -> bool:
        failed = asked.cancelled() or asked.exception() is not None
        return not failed and now_ms - self._asked_at_ms < self._fresh_ms


async def cluster_view(admin: Admin) -> ClusterView:
    """Ask for all of it."""
    cluster = await admin.describe_cluster(timeout=_FIRST_ANSWER_S)
    names = await admin.list_topics(include_internal=True)
    log_dirs: dict[int, list[LogDir]] = {}
    untold: dict[int, str] = {}

    async def ask(node_id: int) -> None:
        try:
            log_dirs.update(await admin.describe_log_dirs([node_id]))
        except KafkaError as error:
            untold[node_id] = str(error)

    topics = await _described(admin, names)
    await asyncio.gather(*(ask(each.node_id) for each in cluster.brokers))
    return ClusterView(cluster=cluster, topics=topics, log_dirs=log_dirs, untold=untold)


async def _described(admin: Admin, names: list[str]) -> dict[str, TopicDescription]:
    if not names:
        return {}
    try:
        return await admin.describe_topics(names)
    except SomeFailed as error:
        # Some were deleted meanwhile, or may not be seen.
        return dict(error.results)
    except UnknownTopicOrPartition:
        # The only one was.
        return {}


def is_under_replicated(partition: PartitionView) -> bool:
    return len(partition.isr) < len(partition.replicas)


def is_offline(partition: PartitionView) -> bool:
    return partition.leader_id < 0
