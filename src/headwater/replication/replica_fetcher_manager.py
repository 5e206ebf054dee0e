"""Replica fetchers, ISR checks, AlterPartition and replication quotas.

Implements `ReplicaServices` for all partitions: one fetcher per leader, the AlterPartition manager,
the periodic check for lagging followers, and the replication quotas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from headwater.common.byte_rate_limit import ByteRateLimit
from headwater.common.ids import NodeId
from headwater.common.ports import Clock
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.ports.inter_broker_client import InterBrokerClient
from headwater.replication.alter_partition_manager import AlterPartitionManager, BrokerIdentity
from headwater.replication.follower_replica import NO_BROKER_EPOCH
from headwater.replication.leader_state import LeaderRules
from headwater.replication.partition import Partition
from headwater.replication.purgatory.timer import Timer, WakeupTimer
from headwater.replication.replica_fetcher import (
    FetchSettings,
    ReplicaFetcher,
    ReplicaFetcherServices,
)
from headwater.replication.replication_quota import is_throttled

_CHECKS_PER_LAG: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFetcherManagerServices:
    """Dependencies from the composition root; `broker_epoch` is this broker's."""

    node_id: NodeId
    broker_epoch: Callable[[], int]
    inter_broker_client: InterBrokerClient
    clock: Clock
    timer: Timer
    settings: BrokerSettings


class ReplicaFetcherManager:
    """Implements `headwater.replication.replica_services.ReplicaServices`."""

    def __init__(self, services: ReplicaFetcherManagerServices) -> None:
        settings = services.settings
        self._services = services
        self._clock = services.clock
        self._image: ClusterImage | None = None
        self._led: Callable[[], Iterable[Partition]] = tuple
        self._fetchers: dict[NodeId, ReplicaFetcher] = {}
        self._leaders: dict[Partition, NodeId] = {}
        self.rules = LeaderRules(
            lag_max_ms=settings.replica_lag_time_max_ms,
            is_alive=self._is_alive,
            registered_epoch=self._registered_epoch,
        )
        self.alter_partition_manager = AlterPartitionManager(
            services.inter_broker_client,
            services.clock,
            services.timer,
            sender=lambda: BrokerIdentity(services.node_id, services.broker_epoch()),
            controller=self._controller,
            timeout_ms=settings.request_timeout_ms,
        )
        self._fetcher_services = ReplicaFetcherServices(
            node_id=services.node_id,
            broker_epoch=services.broker_epoch,
            inter_broker_client=services.inter_broker_client,
            clock=services.clock,
            timer=services.timer,
            settings=_fetch_settings(settings),
            may_fetch=self._may_fetch,
            record_bytes=self._record_fetched,
        )
        # Metrics.
        self.bytes_in = 0
        self.bytes_out = 0
        self.in_sync_shrinks = 0
        self.in_sync_expands = 0
        self._leader_throttle = ByteRateLimit()
        self._follower_throttle = ByteRateLimit()
        self.configure(settings)
        self._check = WakeupTimer(services.timer, self._check_isrs)
        self._is_closed = False

    def begin(self, led: Callable[[], Iterable[Partition]]) -> None:
        """Check the ISRs of the partitions that `led` returns, from now on."""
        self._led = led
        self._set_check()

    def changed(self, image: ClusterImage) -> None:
        """Take live brokers and the controller from a new image."""
        self._image = image

    def configure(self, settings: BrokerSettings) -> None:
        """Apply dynamic settings."""
        self._leader_throttle.limit = settings.leader_replication_throttled_rate
        self._follower_throttle.limit = settings.follower_replication_throttled_rate

    def close(self) -> None:
        """Stop all fetchers and requests."""
        self._is_closed = True
        self._check.cancel()
        self.alter_partition_manager.close()
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._leaders.clear()

    @property
    def max_lag(self) -> int:
        """The largest lag in records of this broker's followers."""
        return max((each.max_lag for each in self._fetchers.values()), default=0)

    def steady_ms(self) -> int:
        return self._clock.steady_ms()

    def follow(self, partition: Partition) -> None:
        leader = partition.state.leader
        if self._is_closed:
            return
        if self._leaders.get(partition) != leader:
            self.unfollow(partition)
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = ReplicaFetcher(leader, self._fetcher_services)
        self._leaders[partition] = leader
        fetcher.follow(partition)

    def unfollow(self, partition: Partition) -> None:
        leader = self._leaders.pop(partition, None)
        if leader is not None:
            self._fetchers[leader].unfollow(partition)

    # Replication quotas.

    def may_send(self, partition: Partition, follower: NodeId) -> bool:
        """As a leader: return whether the quota allows sending to this follower.

        Members of the ISR are never throttled.
        """
        log = partition.log
        if log is None or not is_throttled(
            log.settings.leader_replication_throttled_replicas,
            partition.name,
            self._services.node_id,
        ):
            return True
        return follower in partition.state.isr or not self._leader_throttle.is_exceeded(
            self.steady_ms()
        )

    def record_sent(self, partition: Partition, size_bytes: int) -> None:
        self.bytes_out += size_bytes
        log = partition.log
        if log is not None and is_throttled(
            log.settings.leader_replication_throttled_replicas,
            partition.name,
            self._services.node_id,
        ):
            self._leader_throttle.record(size_bytes, self.steady_ms())

    def record_isr_change(self, before: int, after: int) -> None:
        self.in_sync_shrinks += after < before
        self.in_sync_expands += after > before

    def _may_fetch(self, partition: Partition) -> bool:
        if self._is_throttled_here(partition):
            is_in_isr = self._services.node_id in partition.state.isr
            return is_in_isr or not self._follower_throttle.is_exceeded(self.steady_ms())
        return True

    def _record_fetched(self, partition: Partition, size_bytes: int) -> None:
        self.bytes_in += size_bytes
        if self._is_throttled_here(partition):
            self._follower_throttle.record(size_bytes, self.steady_ms())

    def _is_throttled_here(self, partition: Partition) -> bool:
        log = partition.log
        return log is not None and is_throttled(
            log.settings.follower_replication_throttled_replicas,
            partition.name,
            self._services.node_id,
        )

    # Periodic ISR check.

    def _set_check(self) -> None:
        """Check twice per `replica.lag.time.max.ms` (ISR-2)."""
        interval_ms = max(1, self.rules.lag_max_ms // _CHECKS_PER_LAG)
        self._check.set(self._clock.steady_ms() + interval_ms)

    def _check_isrs(self) -> None:
        if self._is_closed:
            return
        for partition in self._led():
            partition.check_isr()
        self._set_check()

    def _controller(self) -> NodeId:
        assert self._image is not None
        return self._image.controller_id

    def _is_alive(self, node_id: NodeId) -> bool:
        return self._image is not None and node_id in self._image.brokers

    def _registered_epoch(self, node_id: NodeId) -> int:
        broker = None if self._image is None else self._image.brokers.get(node_id)
        return NO_BROKER_EPOCH if broker is None else broker.epoch


def _fetch_settings(settings: BrokerSettings) -> FetchSettings:
    return FetchSettings(
        min_bytes=settings.replica_fetch_min_bytes,
        max_bytes=settings.replica_fetch_max_bytes,
        response_max_bytes=settings.replica_fetch_response_max_bytes,
        wait_max_ms=settings.replica_fetch_wait_max_ms,
        backoff_ms=settings.replica_fetch_backoff_ms,
        timeout_ms=settings.replica_socket_timeout_ms,
    )
