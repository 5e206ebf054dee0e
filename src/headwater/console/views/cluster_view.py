"""A recent view of the cluster: brokers, topics and log directories.

Note: requests within two seconds share one view, so that reloading browsers cost a large cluster
only one set of requests. A change calls `forget`, so that the next page shows it.
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
"""Timeout for the first request, after which a page reports that no broker answers."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The cluster at one moment. `log_dir_errors`: brokers without `log_dirs`."""

    description: ClusterDescription
    topics: dict[str, TopicDescription]
    log_dirs: dict[int, list[LogDir]]
    log_dir_errors: dict[int, str]

    def sizes(self) -> dict[TopicPartition, int]:
        """Size of each partition, summed over its replicas."""
        found: dict[TopicPartition, int] = {}
        for directories in self.log_dirs.values():
            for directory in directories:
                for place, replica in directory.replicas.items():
                    found[place] = found.get(place, 0) + replica.size_bytes
        return found


class CachedView(Generic[T]):
    """A cached value; concurrent callers share one request."""

    def __init__(self, ask: Callable[[], Awaitable[T]], clock: Clock, *, fresh_ms: int) -> None:
        self._ask = ask
        self._clock = clock
        self._fresh_ms = fresh_ms
        self._request: asyncio.Task[T] | None = None
        self._requested_at_ms = 0

    async def get(self) -> T:
        now_ms = self._clock.steady_ms()
        request = self._request
        if request is None or (request.done() and not self._is_fresh(request, now_ms)):
            request = self._request = asyncio.ensure_future(self._ask())
            self._requested_at_ms = now_ms
        # A cancelled caller must not cancel the request for the others.
        return await asyncio.shield(request)

    def forget(self) -> None:
        self._request = None

    def _is_fresh(self, request: "asyncio.Task[T]", now_ms: int) -> bool:
        failed = request.cancelled() or request.exception() is not None
        return not failed and now_ms - self._requested_at_ms < self._fresh_ms


async def cluster_view(admin: Admin) -> ClusterView:
    """Request the whole view."""
    cluster = await admin.describe_cluster(timeout=_FIRST_ANSWER_S)
    names = await admin.list_topics(include_internal=True)
    log_dirs: dict[int, list[LogDir]] = {}
    log_dir_errors: dict[int, str] = {}

    async def ask(node_id: int) -> None:
        try:
            log_dirs.update(await admin.describe_log_dirs([node_id]))
        except KafkaError as error:
            log_dir_errors[node_id] = str(error)

    topics = await _described(admin, names)
    await asyncio.gather(*(ask(each.node_id) for each in cluster.brokers))
    return ClusterView(
        description=cluster, topics=topics, log_dirs=log_dirs, log_dir_errors=log_dir_errors
    )


async def _described(admin: Admin, names: list[str]) -> dict[str, TopicDescription]:
    if not names:
        return {}
    try:
        return await admin.describe_topics(names)
    except SomeFailed as error:
        # Some were deleted meanwhile, or are not authorized.
        return dict(error.results)
    except UnknownTopicOrPartition:
        # The only topic was deleted meanwhile.
        return {}


def is_under_replicated(partition: PartitionView) -> bool:
    return len(partition.isr) < len(partition.replicas)


def is_offline(partition: PartitionView) -> bool:
    return partition.leader_id < 0
