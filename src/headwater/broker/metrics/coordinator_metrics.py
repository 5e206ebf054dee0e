"""Metrics of the group and transaction coordinators, under Kafka's names.

Groups are counted at scrape time. A shard that is not loaded yet has no groups.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from headwater.broker.coordinators.group_lag_sampler import GroupLagSampler, TopicLag
from headwater.broker.metrics.prometheus_exposition import (
    Family,
    Number,
    Sample,
    counter,
    gauge,
    histogram,
)
from headwater.broker.node.broker import Broker
from headwater.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from headwater.coordinator.runtime.coordinator_state import CoordinatorState

_GROUPS: Final = "kafka_server_group_coordinator_metrics"
_TRANSACTIONS: Final = "kafka_server_transaction_coordinator_metrics"
_MS_PER_S: Final = 1_000
_STATES: Final = (CoordinatorState.LOADING, CoordinatorState.ACTIVE, CoordinatorState.FAILED)


def lag_families(sampler: GroupLagSampler) -> Iterator[Family]:
    """Return the lag of groups, measured once per scrape, by its first metric."""
    measured: list[TopicLag] = []

    def records() -> Iterator[Sample]:
        for lag in sampler.lags():
            measured.append(lag)
            yield _lag_sample(lag, lag.records)

    def seconds() -> Iterator[Sample]:
        for lag in measured:
            yield _lag_sample(lag, lag.time_ms / _MS_PER_S)

    yield Family(
        name="headwater_group_lag_records",
        kind="gauge",
        doc="Committed records of a topic that a group has yet to read.",
        samples=records,
    )
    yield Family(
        name="headwater_group_lag_seconds",
        kind="gauge",
        doc="Age of the oldest record of a topic that a group has yet to read.",
        samples=seconds,
    )
    yield gauge(
        "headwater_group_lag_omitted",
        "Committed offsets beyond headwater.group.lag.partitions.max, whose lag is not measured.",
        lambda: sampler.omitted,
    )


def _lag_sample(lag: TopicLag, value: Number) -> Sample:
    return Sample(value=value, labels=(("group", lag.group), ("topic", lag.topic)))


def coordinator_families(broker: Broker) -> Iterator[Family]:
    yield from _of_groups(broker)
    yield from _of_runtime(_GROUPS, broker.groups.runtime)
    yield from _of_runtime(_TRANSACTIONS, broker.transactions.runtime)


def _of_groups(broker: Broker) -> Iterator[Family]:
    coordinator = broker.groups

    def groups() -> Iterator[Sample]:
        counts = Counter(
            (group.group_type.value, group.state_name)
            for shard in coordinator.active_shards()
            for group in shard.groups
        )
        for (protocol, state), count in sorted(counts.items()):
            yield Sample(value=count, labels=(("protocol", protocol), ("state", state)))

    yield Family(
        name=f"{_GROUPS}_group_count",
        kind="gauge",
        doc="Groups that this broker coordinates, by protocol and state.",
        samples=groups,
    )
    yield gauge(
        "kafka_coordinator_group_groupmetadatamanager_numoffsets",
        "Committed offsets of the groups that this broker coordinates.",
        lambda: sum(each.offsets.count for each in coordinator.active_shards()),
    )
    yield counter(
        f"{_GROUPS}_group_completed_rebalance_total",
        "Completed rebalances of classic groups.",
        lambda: coordinator.counters.classic_rebalances,
    )
    yield counter(
        f"{_GROUPS}_consumer_group_rebalance_total",
        "Rebalances of consumer groups: new group epochs.",
        lambda: coordinator.counters.consumer_rebalances,
    )


def _of_runtime(name: str, runtime: CoordinatorRuntime[Any]) -> Iterator[Family]:
    def shards() -> Iterator[Sample]:
        counts = Counter(each.state for each in runtime.shards())
        # A queued shard is one that is to be loaded.
        counts[CoordinatorState.LOADING] += counts[CoordinatorState.QUEUED]
        for state in _STATES:
            yield Sample(value=counts[state], labels=(("state", state.value),))

    yield Family(
        name=f"{name}_num_partitions",
        kind="gauge",
        doc="Partitions of the coordinator's topic on this broker, by state.",
        samples=shards,
    )
    yield histogram(
        f"{name}_partition_load_time_seconds",
        "Time of loading a partition of the coordinator's topic.",
        lambda: runtime.load_times,
    )
