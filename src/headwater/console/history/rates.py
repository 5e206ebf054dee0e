"""Compute rates and lags from two readings of a cluster. Pure.

Note: log ends and sizes can go back, when a topic is recreated or retention deletes segments. What
went back counts as zero. A partition without an earlier reading counts as zero too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.common.ids import TopicPartition
from headwater.console.history.broker_metrics import BrokerReading, request_latency_ms
from headwater.console.history.series import Measure, SeriesKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReading:
    """The numbers of a cluster at one moment."""

    steady_ms: int
    log_ends: Mapping[TopicPartition, int]
    leader_sizes: Mapping[TopicPartition, int]
    topic_sizes: Mapping[str, int]
    """Bytes of all replicas."""
    broker_sizes: Mapping[int, int]
    broker_replica_sizes: Mapping[int, Mapping[TopicPartition, int]]
    group_lags: Mapping[str, int]
    metrics: Mapping[int, BrokerReading] = field(default_factory=dict)


def sample(before: ClusterReading | None, now: ClusterReading) -> dict[SeriesKey, float]:
    """Values of all series at the second reading; rates need a first one."""
    found: dict[SeriesKey, float] = {}
    for topic, size in now.topic_sizes.items():
        found[SeriesKey(Measure.TOPIC_SIZE, topic)] = size
    for node_id, size in now.broker_sizes.items():
        found[SeriesKey(Measure.BROKER_SIZE, str(node_id))] = size
    for group, lag in now.group_lags.items():
        found[SeriesKey(Measure.GROUP_LAG, group)] = lag
    found[SeriesKey(Measure.TOTAL, "size")] = sum(now.broker_sizes.values())
    found[SeriesKey(Measure.TOTAL, "lag")] = sum(now.group_lags.values())
    if before is not None:
        found |= _rates(before, now)
    return found


def _rates(before: ClusterReading, now: ClusterReading) -> dict[SeriesKey, float]:
    elapsed_s = max(now.steady_ms - before.steady_ms, 1) / 1000
    found: dict[SeriesKey, float] = {}
    records = _by_topic(_advances(before.log_ends, now.log_ends))
    growth = _by_topic(_advances(before.leader_sizes, now.leader_sizes))
    for topic, count in records.items():
        found[SeriesKey(Measure.TOPIC_RECORDS, topic)] = count / elapsed_s
    for topic, count in growth.items():
        found[SeriesKey(Measure.TOPIC_GROWTH, topic)] = count / elapsed_s
    for node_id, sizes in now.broker_replica_sizes.items():
        if node_id in before.broker_replica_sizes:
            grown = sum(_advances(before.broker_replica_sizes[node_id], sizes).values())
            found[SeriesKey(Measure.BROKER_GROWTH, str(node_id))] = grown / elapsed_s
    found[SeriesKey(Measure.TOTAL, "records")] = sum(records.values()) / elapsed_s
    found[SeriesKey(Measure.TOTAL, "growth")] = sum(growth.values()) / elapsed_s
    return found | _metric_rates(before, now, elapsed_s)


def _metric_rates(
    before: ClusterReading, now: ClusterReading, elapsed_s: float
) -> dict[SeriesKey, float]:
    both = {
        node_id: (before.metrics[node_id], reading)
        for node_id, reading in now.metrics.items()
        if node_id in before.metrics
    }
    if not both:
        return {}
    found: dict[SeriesKey, float] = {}
    bytes_in = {node_id: _since(old.bytes_in, new.bytes_in) for node_id, (old, new) in both.items()}
    bytes_out = {
        node_id: _since(old.bytes_out, new.bytes_out) for node_id, (old, new) in both.items()
    }
    for node_id in both:
        found[SeriesKey(Measure.BROKER_BYTES_IN, str(node_id))] = bytes_in[node_id] / elapsed_s
        found[SeriesKey(Measure.BROKER_BYTES_OUT, str(node_id))] = bytes_out[node_id] / elapsed_s
    found[SeriesKey(Measure.TOTAL, "bytes-in")] = sum(bytes_in.values()) / elapsed_s
    found[SeriesKey(Measure.TOTAL, "bytes-out")] = sum(bytes_out.values()) / elapsed_s
    for request, latency_ms in request_latency_ms(both.values()).items():
        found[SeriesKey(Measure.LATENCY, request)] = latency_ms
    return found


def _advances(
    before: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    return {place: max(value - before.get(place, value), 0) for place, value in now.items()}


def _by_topic(values: Mapping[TopicPartition, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for place, value in values.items():
        found[place.topic] = found.get(place.topic, 0) + value
    return found


def _since(old: float, new: float) -> float:
    """A restarted broker counts from zero, so a lower counter counts in full."""
    return new - old if new >= old else new
