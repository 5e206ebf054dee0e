"""Ask the cluster for its numbers every few seconds, and add them to the history.

Works with every Kafka cluster: log ends, sizes and committed offsets come from the Kafka protocol.
Bytes in and out and request times are only in the brokers' metrics, which are read where a broker's
configs name a metrics listener, or from the addresses of `--metrics`.

Note: a large cluster is asked less often. The pause is nine times as long as a reading, up to a
minute, so that the console does not spend its time on it.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from headwater.client.admin.descriptions import ConfigResource
from headwater.client.aio import Admin
from headwater.client.errors import KafkaError, SomeFailed
from headwater.common.exceptions import HeadwaterError, HttpFetchFailed, InvalidSetting
from headwater.common.ids import TopicPartition
from headwater.common.ports import Clock
from headwater.console.history.broker_metrics import BrokerReading, broker_reading
from headwater.console.history.metrics_addresses import (
    LISTENER_CONFIG,
    metrics_location,
)
from headwater.console.history.rates import ClusterReading, sample
from headwater.console.history.series import History
from headwater.console.views.cluster_view import CachedView, ClusterView, is_offline
from headwater.network.http_client import HttpLocation, fetch

FIRST_PAUSE_S: Final = 2.0
PAUSE_S: Final = 5.0
BUSY_FACTOR: Final = 9.0
FAILED_PAUSE_S: Final = 10.0
PAUSE_MAX_S: Final = 60.0
GROUPS_MAX: Final = 200
GROUPS_AT_ONCE: Final = 8
DISCOVER_EVERY: Final = 24
"""Readings after which the brokers are asked again where their metrics are."""
ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024

_TIMEOUT_S: Final = 3.0
_END: Final = -1

_log = logging.getLogger(__name__)


class Sampler:
    """Fills a `History` until it is cancelled."""

    def __init__(
        self,
        admin: Admin,
        cluster_views: CachedView[ClusterView],
        clock: Clock,
        *,
        metrics: Sequence[HttpLocation] = (),
    ) -> None:
        """Without `metrics` of the user, the brokers' configs are searched."""
        self.history = History()
        self.problems: dict[str, str] = {}
        """Why metrics could not be read, by address."""
        self.groups_left_out = 0
        self._admin = admin
        self._cluster_views = cluster_views
        self._clock = clock
        # Their brokers' ids are unknown, and negative numbers are not broker ids.
        self._given = {-index - 1: each for index, each in enumerate(metrics)}
        self._discovered: dict[int, HttpLocation] = {}
        self._readings = 0
        self._before: ClusterReading | None = None

    @property
    def has_metrics(self) -> bool:
        return bool(self._before is not None and self._before.metrics)

    async def run(self) -> None:
        while True:
            started_ms = self._clock.steady_ms()
            pause_s = FIRST_PAUSE_S if self._readings <= 1 else PAUSE_S
            try:
                await self.sample()
            except (HeadwaterError, TimeoutError) as error:
                # The pages say that no broker answers; the charts have a gap.
                _log.debug("Could not sample the cluster: %s", error)
                pause_s = FAILED_PAUSE_S
            took_s = (self._clock.steady_ms() - started_ms) / 1000
            await asyncio.sleep(max(pause_s, min(BUSY_FACTOR * took_s, PAUSE_MAX_S)))

    async def sample(self) -> None:
        """Read the cluster once."""
        cluster = await self._cluster_views.get()
        await self._discover(cluster)
        reading = await self._reading(cluster)
        self.history.add(self._clock.now_ms(), sample(self._before, reading))
        self._before = reading
        self._readings += 1

    async def _reading(self, cluster: ClusterView) -> ClusterReading:
        places = [
            TopicPartition(name, each.partition)
            for name, topic in cluster.topics.items()
            for each in topic.partitions
            if not is_offline(each)
        ]
        ends = await self._log_ends(places)
        sizes = {
            node_id: {
                place: replica.size_bytes
                for directory in directories
                for place, replica in directory.replicas.items()
                if not replica.is_future
            }
            for node_id, directories in cluster.log_dirs.items()
        }
        topic_sizes: dict[str, int] = dict.fromkeys(cluster.topics, 0)
        for replicas in sizes.values():
            for place, size in replicas.items():
                if place.topic in topic_sizes:
                    topic_sizes[place.topic] += size
        leader_sizes: dict[TopicPartition, int] = {}
        for name, topic in cluster.topics.items():
            for each in topic.partitions:
                place = TopicPartition(name, each.partition)
                size_of = sizes.get(each.leader_id, {}).get(place)
                if size_of is not None:
                    leader_sizes[place] = size_of
        return ClusterReading(
            steady_ms=self._clock.steady_ms(),
            log_ends=ends,
            leader_sizes=leader_sizes,
            topic_sizes=topic_sizes,
            broker_sizes={node_id: sum(each.values()) for node_id, each in sizes.items()},
            broker_replica_sizes=sizes,
            group_lags=await self._group_lags(ends),
            metrics=await self._metrics(),
        )

    async def _log_ends(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if not places:
            return {}
        try:
            listed = await self._admin.list_offsets(dict.fromkeys(places, _END))
        except SomeFailed as error:
            # Some partitions moved or vanished meanwhile.
            listed = dict(error.results)
        return {place: each.offset for place, each in listed.items()}

    async def _group_lags(self, ends: Mapping[TopicPartition, int]) -> dict[str, int]:
        groups = await self._admin.list_groups()
        # Groups with members first: they are the ones whose lag moves.
        ordered = sorted(groups, key=lambda each: (each.state.lower() in ("empty", "dead"),))
        self.groups_left_out = max(len(ordered) - GROUPS_MAX, 0)
        gate = asyncio.Semaphore(GROUPS_AT_ONCE)
        found: dict[str, int] = {}

        async def ask(group_id: str) -> None:
            async with gate:
                try:
                    committed = await self._admin.list_group_offsets(group_id)
                except KafkaError as error:
                    _log.debug("Could not list the offsets of %s: %s", group_id, error)
                    return
            if committed:
                found[group_id] = sum(
                    max(ends[place] - each.offset, 0)
                    for place, each in committed.items()
                    if place in ends
                )

        await asyncio.gather(*(ask(each.group_id) for each in ordered[:GROUPS_MAX]))
        return found

    async def _discover(self, cluster: ClusterView) -> None:
        """Find metrics listeners in the brokers' configs, unless addresses are given."""
        if self._given or self._readings % DISCOVER_EVERY:
            return
        found: dict[int, HttpLocation] = {}
        for node in cluster.description.brokers:
            resource = ConfigResource.broker(node.node_id)
            try:
                entries = (await self._admin.describe_configs([resource]))[resource]
            except KafkaError as error:
                _log.debug("Could not describe broker %s: %s", node.node_id, error)
                continue
            entry = entries.get(LISTENER_CONFIG)
            location = metrics_location(node.address.host, None if entry is None else entry.value)
            if location is not None:
                found[node.node_id] = location
        self._discovered = found

    async def _metrics(self) -> dict[int, BrokerReading]:
        locations = self._given or self._discovered
        found: dict[int, BrokerReading] = {}
        problems: dict[str, str] = {}

        async def ask(node_id: int, location: HttpLocation) -> None:
            try:
                found[node_id] = broker_reading(await asyncio.to_thread(_text_of, location))
            except (HttpFetchFailed, InvalidSetting, ValueError) as error:
                problems[str(location)] = str(error)

        await asyncio.gather(*(ask(*each) for each in locations.items()))
        self.problems = problems
        return found


def _text_of(location: HttpLocation) -> str:
    raw = fetch(location, timeout_s=_TIMEOUT_S, limit_bytes=ANSWER_BYTES_MAX)
    return raw.decode("utf-8", "replace")
